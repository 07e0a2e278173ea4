// Command local implements the targets of the Makefile that run something. It starts
// and stops the local cluster, runs the manager on it, starts the demo, and
// supervises tests. Run it in the root of the repository.
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

  up                    start the cluster, unless it already runs
  down                  stop the manager and the cluster
  run                   install Upright and run the manager in the foreground
  demo                  start the cluster and the manager, create sample objects, and show them
  supervise COMMAND...  run a command, and then end all processes that it started
`

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs a command and returns the exit code.
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
		return fmt.Errorf("unknown command\n%s", usage)
	}
}
