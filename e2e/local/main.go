// Command local is behind the targets of the Makefile that run something: it
// starts and stops the local cluster, runs the manager on it, sets up the demo,
// and supervises a test run. It runs in the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const usage = `usage: local COMMAND

  up                    start the cluster, or do nothing where it runs
  down                  stop the manager and the cluster
  run                   run the manager in the foreground
  demo                  start the cluster, the manager and something to look at
  supervise COMMAND...  run a command so that no process it started outlives it
`

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs a command and returns the code to exit with.
func execute(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()

	err := command(ctx, args[0], args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && args[0] == "supervise" {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1
	}
	return 0
}

func command(ctx context.Context, name string, args []string) error {
	switch name {
	case "up":
		_, err := up(ctx)
		return err
	case "down":
		return down(ctx)
	case "run":
		return run(ctx)
	case "demo":
		return demo(ctx)
	case "supervise":
		return supervise(ctx, args)
	case "sweep":
		return sweep(ctx, args)
	default:
		return fmt.Errorf("there is no such command\n%s", usage)
	}
}
