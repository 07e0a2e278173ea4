package owned

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/upright/internal/testenv"
)

// TestBusyboxCommandWaitsAndExitsOnSIGTERM runs the command of a Busybox's container and sends
// the signal when the command waits. A sleep script prints a line at that time. The real sleep
// runs for an hour, so the command would not exit without the signal.
func TestBusyboxCommandWaitsAndExitsOnSIGTERM(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	bin := t.TempDir()
	script := "#!/bin/sh\necho waiting\nexec " + sleep + ` "$@"` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sleep"), []byte(script), 0o700))

	argv := busyboxDeployment(newBusybox("default", "web")).Spec.Template.Spec.Containers[0].Command
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	// In a container, all processes end with process 1. Here, sleep outlives its shell.
	t.Cleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })

	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "waiting\n", line)
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	select {
	case err := <-exited:
		require.NoError(t, err, "exit code 0")
	case <-time.After(testenv.Timeout):
		require.Fail(t, "still running after SIGTERM")
	}
}
