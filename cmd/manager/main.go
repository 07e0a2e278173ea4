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

	ctrl "sigs.k8s.io/controller-runtime"
)

// gcPercent is the default of GOGC. The manager collects garbage when its heap has grown by this
// percentage. A low value saves memory and costs little, because the manager computes little.
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
	mgr, err := newManager(ctx, settings)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}
