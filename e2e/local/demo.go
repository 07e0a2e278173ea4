package main

import (
	"context"
	"fmt"
	"path/filepath"

	"example.com/upright/e2e/cluster"
)

const (
	demoNamespace = "demo"
	demoRelease   = "web"
	demoChart     = "e2e/charts/web"
	helmVersion   = 4
)

// demo brings up everything there is to see and prints it. Everything it does
// can be done again, so that the demo of an earlier build becomes this one's.
func demo(ctx context.Context) error {
	c, err := up(ctx)
	if err != nil {
		return err
	}
	if err := install(ctx, c); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func(context.Context, *cluster.Cluster) error
	}{
		{"starting the manager", startManager},
		{"installing the Helm release " + demoRelease, installRelease},
		{"applying " + samplesDir(), applySamples},
		{"waiting until all is ready and usage is measured", waitReady},
		{"waiting until pods have the recommended size", waitApplied},
	}
	for _, s := range steps {
		if err := step(s.name, func() error { return s.do(ctx, c) }); err != nil {
			return fmt.Errorf("%w\n(the manager's log is %s, those of the control plane are in %s)",
				err, c.ManagerLog(), c.Logs())
		}
	}
	return printOverview(ctx, c)
}

func samplesDir() string { return filepath.Join(deployDir, "samples") }

// startManager starts the manager as it is deployed, but for the time between two readings of
// usage, which nobody wants to wait for.
func startManager(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.StartManager(ctx, cluster.ManagerOptions{
		Binary: managerBin, Deploy: deployDir, ExtraArgs: []string{"--metrics-interval=5s"},
	})
	return err
}

// installRelease installs the release with so small a request for CPU that it is below the
// lower bound of whatever is recommended, as the chart's request for memory is: such requests
// are raised at once, and others when the recommendation has held for a while.
func installRelease(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.Helm(ctx, helmVersion, "upgrade", "--install", demoRelease, demoChart,
		"--set", "resources.requests.cpu=20m", "--namespace", demoNamespace, "--create-namespace")
	return err
}

func applySamples(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.Kubectl(ctx, "apply", "--server-side", "--namespace", demoNamespace, "-k", samplesDir())
	return err
}

// waitReady waits for Upright's objects first, since some of the Deployments
// exist only when these are ready.
func waitReady(ctx context.Context, c *cluster.Cluster) error {
	if err := waitFor(ctx, c, "Ready", "upright"); err != nil {
		return err
	}
	return waitFor(ctx, c, "Available", "deployments")
}

func waitApplied(ctx context.Context, c *cluster.Cluster) error {
	return waitFor(ctx, c, "Applied", "verticalscalers")
}

// waitFor waits until all objects of a resource, or of a category of them, have a condition.
func waitFor(ctx context.Context, c *cluster.Cluster, condition, resource string) error {
	_, err := c.Kubectl(ctx, "wait", "--for=condition="+condition, resource,
		"--all", "--namespace", demoNamespace, "--timeout=3m")
	return err
}
