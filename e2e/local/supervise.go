package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"example.com/upright/e2e/cluster/process"
)

const (
	// interruptGrace is the time that an interrupted command has to clean up.
	interruptGrace = 30 * time.Second
	sweepTimeout   = time.Minute
)

// supervise runs a command, and ends all processes that the command started, also
// after an interruption. The control planes that tests start are daemons: a signal
// to the command does not reach them. supervise finds them by the command's folder
// for temporary files, because it is in the command line of each of them.
//
// A second process, the sweeper, cleans up when this process ends, even if it is
// killed. The pipe between them closes then. The sweeper also reads the process
// group of the command from the pipe.
func supervise(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("supervise needs a command")
	}
	dir, err := temporaryDir()
	if err != nil {
		return err
	}
	alive, sweeper, err := startSweeper(dir)
	if err != nil {
		return err
	}
	err = runInterruptibly(ctx, dir, args, alive)
	return errors.Join(err, alive.Close(), sweeper.Wait())
}

// temporaryDir creates a folder and returns its path without symbolic links, so that it
// is the path in command lines.
func temporaryDir() (string, error) {
	dir, err := os.MkdirTemp("", "upright-run-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for temporary files: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the folder for temporary files: %w", err)
	}
	return dir, nil
}

// startSweeper starts the process that cleans up when the returned pipe closes. It
// runs in its own session, so that it outlives this process.
func startSweeper(dir string) (io.WriteCloser, *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the path of this program: %w", err)
	}
	sweeper := exec.Command(self, "sweep", dir)
	sweeper.Stderr = os.Stderr
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := sweeper.StdinPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("creating the pipe to the sweeper: %w", err)
	}
	if err := sweeper.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the sweeper: %w", err)
	}
	return alive, sweeper, nil
}

// runInterruptibly runs a command in its own process group and writes the id of the group
// to alive. If the context ends, it interrupts the whole group.
func runInterruptibly(ctx context.Context, dir string, args []string, alive io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	_, err := fmt.Fprint(alive, cmd.Process.Pid)
	return errors.Join(err, cmd.Wait())
}

// sweep waits until its standard input ends. Then it ends the process group that it
// read there and every process with the folder in its command line, and removes the
// folder.
func sweep(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("sweep needs exactly one folder")
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("waiting for the supervisor to end: %w", err)
	}
	// Without a number, the command did not start.
	if group, err := strconv.Atoi(string(input)); err == nil {
		if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending the process group %d: %w", group, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer cancel()
	if err := process.End(ctx, process.Mentions(args[0]), 0); err != nil {
		return err
	}
	if err := os.RemoveAll(args[0]); err != nil {
		return fmt.Errorf("removing the folder for temporary files: %w", err)
	}
	return nil
}
