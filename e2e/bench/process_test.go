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
	// ticksPerSecond is the unit of CPU time in /proc. It is the same on every Linux.
	ticksPerSecond = 100
	// memoryInterval is the time between two readings of a process's memory.
	memoryInterval = 100 * time.Millisecond
)

// consumption is what a process used in an interval.
type consumption struct {
	span
	// cpu is the CPU time in seconds.
	cpu float64
	// resident is the maximum resident memory in the interval, in bytes. peak is the maximum since
	// the start of the process.
	resident, peak float64
}

// measureProcess waits for the duration and returns what a process used in it.
func measureProcess(b *testing.B, pid int, duration time.Duration) consumption {
	b.Helper()
	used := consumption{span: span{from: time.Now()}, cpu: -cpuSeconds(b, pid)}
	end := time.NewTimer(duration)
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		used.resident = max(used.resident, memory(b, pid, "VmRSS"))
		select {
		case used.to = <-end.C:
			used.cpu += cpuSeconds(b, pid)
			used.peak = max(memory(b, pid, "VmHWM"), used.resident) // The kernel updates VmHWM in batches.
			return used
		case <-tick.C:
		}
	}
}

// cpuSeconds returns the CPU time of a process since its start, in user mode and in the kernel.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	// The second field is the program's name in parentheses, which can contain spaces.
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

// memory returns a value from /proc/<pid>/status in bytes.
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
