// The manager runs Upright's controllers.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
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
	if settings.showVersion {
		fmt.Fprintln(out, version())
		return nil
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

// version describes the build: the version, the commit, and the platform.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "upright, unknown version"
	}
	settings := map[string]string{}
	for _, setting := range build.Settings {
		settings[setting.Key] = setting.Value
	}
	commit := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		commit += " with changes"
	}
	return fmt.Sprintf("upright %s, commit %s, %s, %s/%s",
		cmp.Or(build.Main.Version, "(devel)"), commit, build.GoVersion, runtime.GOOS, runtime.GOARCH)
}
