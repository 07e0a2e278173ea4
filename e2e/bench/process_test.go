package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// ticksPerSecond is the unit of processor time in /proc, the same on every Linux.
	ticksPerSecond = 100
	// look is how often the memory of a process is looked at.
	look = 100 * time.Millisecond
)

// consumption is what a process used in some time.
type consumption struct {
	span
	// cpu is in seconds.
	cpu float64
	// resident is the most memory in that time, and most the most ever, in bytes.
	resident, most float64
}

// observe returns what a process uses in the time to come.
func observe(b *testing.B, pid int, duration time.Duration) consumption {
	b.Helper()
	used := consumption{span: span{from: time.Now()}, cpu: -cpuSeconds(b, pid)}
	end := time.NewTimer(duration)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		used.resident = max(used.resident, memory(b, pid, "VmRSS"))
		select {
		case used.to = <-end.C:
			used.cpu += cpuSeconds(b, pid)
			used.most = max(memory(b, pid, "VmHWM"), used.resident) // The kernel adds up in batches.
			return used
		case <-tick.C:
		}
	}
}

// cpuSeconds returns the processor time that a process has used, its own and the kernel's for it.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	// The program's name, in parentheses, may have spaces. The third field comes after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const third, utime, stime = 3, 14, 15
	ticks := 0
	for _, field := range []int{utime, stime} {
		value, err := strconv.Atoi(fields[field-third])
		require.NoError(b, err)
		ticks += value
	}
	return float64(ticks) / ticksPerSecond
}

// memory returns a figure of /proc/<pid>/status in bytes.
func memory(b *testing.B, pid int, name string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	lines := slices.Collect(strings.Lines(string(status)))
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+":") })
	require.GreaterOrEqual(b, at, 0, "%s of process %d", name, pid)
	kibibytes, err := strconv.Atoi(strings.Fields(lines[at])[1])
	require.NoError(b, err)
	return float64(kibibytes) * 1024
}
