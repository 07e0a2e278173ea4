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

func TestEndTerminatesADaemonThatMentionsTheText(t *testing.T) {
	marker := t.TempDir()
	daemon := start(t, "true", marker)

	require.NoError(t, process.End(t.Context(), process.Mentions(marker), time.Minute))

	assert.Equal(t, syscall.SIGTERM, endedBy(t, daemon))
}

func TestEndKillsAProcessThatIgnoresTheRequestToTerminate(t *testing.T) {
	marker := t.TempDir()
	stubborn := start(t, "trap '' TERM", marker)

	require.NoError(t, process.End(t.Context(), process.Mentions(marker), 0))

	assert.Equal(t, syscall.SIGKILL, endedBy(t, stubborn))
}

func TestEndReturnsAtOnceWhereNothingMatches(t *testing.T) {
	require.NoError(t, process.End(t.Context(), process.Mentions(t.TempDir()), time.Hour))
}

func TestEndGivesUpWithItsContext(t *testing.T) {
	marker := t.TempDir()
	start(t, "trap '' TERM", marker)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	err := process.End(ctx, process.Mentions(marker), time.Hour)

	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFindLeavesOutThisProcess(t *testing.T) {
	ids, err := process.Find(func([]string) bool { return true })
	require.NoError(t, err)

	assert.NotEmpty(t, ids)
	assert.NotContains(t, ids, syscall.Getpid())
}

// start starts a process that mentions the marker, in a session of its own as a
// daemon would be, and waits until it has run its preparation.
func start(t *testing.T, preparation, marker string) *exec.Cmd {
	t.Helper()
	script := preparation + "; echo prepared; read -r; : " + marker
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	input, err := cmd.StdinPipe() // To which nothing is ever written.
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// By now the group is usually gone, which is not worth an error.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = input.Close()
	})
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return cmd
}

// endedBy is the signal that ended a process.
func endedBy(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	return status.Signal()
}
