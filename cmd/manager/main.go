// The manager runs Upright's controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// gcPercent is how much the heap may grow, in percent of what is in use, until garbage is
// collected. The manager has little to compute, and memory to save.
const gcPercent = 10

func main() {
	if _, isSet := os.LookupEnv("GOGC"); !isSet {
		debug.SetGCPercent(gcPercent)
	}
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "upright: %v\n", err)
		os.Exit(1)
	}
}

// run runs the manager with the given arguments until the context ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	settings, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctrl.SetLogger(settings.logger(out))
	mgr, saved, err := newManager(ctx, settings)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		awaitSaved(mgr, saved)
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

// awaitSaved gives a leader that has lost its lease the time to save what it learned: what is
// left until another may take the lease over.
func awaitSaved(mgr ctrl.Manager, saved <-chan struct{}) {
	select {
	case <-mgr.Elected():
	default:
		return
	}
	select {
	case <-saved:
	case <-time.After(leaseDuration - renewDeadline):
	}
}
