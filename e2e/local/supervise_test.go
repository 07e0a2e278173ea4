package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/e2e/cluster/process"
)

const (
	// daemon starts a process that ignores SIGTERM and blocks, with a folder in its
	// command line. It prints the folder.
	daemon = `
		mkfifo "$TMPDIR/never"
		setsid bash -c 'trap "" TERM INT; read -r <>"$0"' "$TMPDIR/never" >/dev/null 2>&1 &
		echo "$TMPDIR"
	`
	// block keeps the command running.
	block = `read -r <>"$TMPDIR/never"`
)

// TestMain runs the program instead of the tests if the arguments are those of the
// program, because supervise runs its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "supervise" || os.Args[1] == "sweep") {
		os.Exit(execute(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestSuperviseLeavesNothingAfterSuccess(t *testing.T) {
	supervisor := supervised(t, daemon)
	out, err := supervisor.Output()
	require.NoError(t, err)

	assertNothingLeft(t, strings.TrimSpace(string(out)))
}

func TestSuperviseReturnsTheExitCodeOfTheCommand(t *testing.T) {
	err := supervised(t, "exit 7").Run()

	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 7, exit.ExitCode())
}

func TestSuperviseLeavesNothingAfterAnInterruption(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			supervisor := supervised(t, daemon+block)
			dir := startAndReadFolder(t, supervisor)

			require.NoError(t, supervisor.Process.Signal(signal))

			require.Error(t, supervisor.Wait())
			assertNothingLeft(t, dir)
		})
	}
}

func TestSuperviseLeavesNothingAfterItIsKilled(t *testing.T) {
	supervisor := supervised(t, daemon+block)
	dir := startAndReadFolder(t, supervisor)

	require.NoError(t, supervisor.Process.Kill())

	require.Error(t, supervisor.Wait())
	assert.EventuallyWithT(t, func(c *assert.CollectT) { assertNothingLeft(c, dir) }, 10*time.Second, 20*time.Millisecond)
}

// supervised returns a command that supervises a script in its own process.
func supervised(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self, "supervise", "bash", "-c", script)
	// The script can keep the pipe of a killed supervisor open.
	cmd.WaitDelay = time.Second
	return cmd
}

// startAndReadFolder starts a supervisor and returns the folder that its script
// prints when the daemon runs.
func startAndReadFolder(t *testing.T, supervisor *exec.Cmd) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "output")
	output, err := os.Create(file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, output.Close()) })
	supervisor.Stdout = output
	require.NoError(t, supervisor.Start())
	var dir []byte
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		dir, err = os.ReadFile(file)
		require.NoError(c, err)
		require.True(c, bytes.HasSuffix(dir, []byte("\n")))
	}, 10*time.Second, 10*time.Millisecond)
	return strings.TrimSpace(string(dir))
}

func assertNothingLeft(t require.TestingT, dir string) {
	ids, err := process.Find(process.Mentions(dir))
	require.NoError(t, err)
	assert.Empty(t, ids, "processes that mention %s", dir)
	assert.NoDirExists(t, dir)
}
