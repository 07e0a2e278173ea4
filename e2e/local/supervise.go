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
	// interruptGrace is how long an interrupted command may take to clean up.
	interruptGrace = 30 * time.Second
	sweepTimeout   = time.Minute
)

// supervise runs a command so that no process that it started outlives it, also
// when it is interrupted. The control planes that tests start are daemons, which
// no signal to the command reaches. What tells them is the folder for temporary
// files that the command is given: each of them has it in its command line.
//
// A second process does the cleaning up when this one ends in whatever way,
// which it learns from the pipe between them. Through the pipe it is also told
// the command's process group.
func supervise(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("there is no command to run")
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

// temporaryDir makes a folder under its real path, as processes will see it.
func temporaryDir() (string, error) {
	dir, err := os.MkdirTemp("", "upright-run-")
	if err != nil {
		return "", fmt.Errorf("making a folder for temporary files: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the folder for temporary files: %w", err)
	}
	return dir, nil
}

// startSweeper starts the process that cleans up when the returned pipe closes.
// It has a session of its own, so that what ends this process does not end it.
func startSweeper(dir string) (io.WriteCloser, *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this program: %w", err)
	}
	sweeper := exec.Command(self, "sweep", dir)
	sweeper.Stderr = os.Stderr
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := sweeper.StdinPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("making the pipe to the sweeper: %w", err)
	}
	if err := sweeper.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the sweeper: %w", err)
	}
	return alive, sweeper, nil
}

// runInterruptibly runs a command in a process group of its own, whose id it
// writes to announce, and passes an interruption on to the whole group.
func runInterruptibly(ctx context.Context, dir string, args []string, announce io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	_, err := fmt.Fprint(announce, cmd.Process.Pid)
	return errors.Join(err, cmd.Wait())
}

// sweep waits until its standard input ends, then ends the process group that it
// read there and every process that has the folder in its command line, and
// removes the folder.
func sweep(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("there is not one folder to sweep")
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("waiting for the supervisor to end: %w", err)
	}
	// Without a number, the command was never started.
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
