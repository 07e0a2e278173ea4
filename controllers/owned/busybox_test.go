package controllers

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBusyboxCommandWaitsAndEndsPromptlyOnSIGTERM runs the command of a Busybox's container
// and sends it the signal once it waits, which a sleep of the test's own tells.
func TestBusyboxCommandWaitsAndEndsPromptlyOnSIGTERM(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	bin := t.TempDir()
	script := "#!/bin/sh\necho waiting\nexec " + sleep + ` "$@"` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sleep"), []byte(script), 0o700))

	argv := busyboxDeployment(newBusybox("default", "box")).Spec.Template.Spec.Containers[0].Command
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	// The sleep outlives its shell here; a container ends with its process 1.
	t.Cleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })

	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "waiting\n", line)
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err, "exit code 0")
	case <-time.After(soon):
		require.Fail(t, "still running after SIGTERM")
	}
}
