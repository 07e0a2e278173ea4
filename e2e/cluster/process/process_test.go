package process_test

import (
	"bufio"
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/e2e/cluster/process"
)

func TestEndTerminatesAMatchingDaemon(t *testing.T) {
	marker := t.TempDir()
	daemon := start(t, "true", marker)

	require.NoError(t, process.End(t.Context(), process.Mentions(marker), time.Minute))

	assert.Equal(t, syscall.SIGTERM, endedBy(t, daemon))
}

func TestEndKillsAProcessThatIgnoresSIGTERM(t *testing.T) {
	marker := t.TempDir()
	daemon := start(t, "trap '' TERM", marker)

	require.NoError(t, process.End(t.Context(), process.Mentions(marker), 0))

	assert.Equal(t, syscall.SIGKILL, endedBy(t, daemon))
}

func TestEndReturnsIfNoProcessMatches(t *testing.T) {
	require.NoError(t, process.End(t.Context(), process.Mentions(t.TempDir()), time.Hour))
}

func TestEndStopsWithItsContext(t *testing.T) {
	marker := t.TempDir()
	start(t, "trap '' TERM", marker)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	err := process.End(ctx, process.Mentions(marker), time.Hour)

	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFindLeavesOutItsOwnProcess(t *testing.T) {
	ids, err := process.Find(func([]string) bool { return true })
	require.NoError(t, err)

	assert.NotEmpty(t, ids)
	assert.NotContains(t, ids, syscall.Getpid())
}

// start starts a process with the marker in its command line, in its own session like a
// daemon. It waits until the process has run the preparation.
func start(t *testing.T, preparation, marker string) *exec.Cmd {
	t.Helper()
	script := preparation + "; echo prepared; read -r; : " + marker
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	input, err := cmd.StdinPipe() // Nothing is written to it, so that the process waits.
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// Ignore the error: the process group has usually ended.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = input.Close()
	})
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return cmd
}

// endedBy waits until a process has ended and returns the signal that ended it.
func endedBy(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	return status.Signal()
}
