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

// demo starts everything and prints an overview. It can run again, for example to
// upgrade the demo to a new build.
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
		{"waiting until all objects are ready and usage is measured", waitReady},
		{"waiting until pods have the recommended size", waitApplied},
	}
	for _, s := range steps {
		if err := step(s.name, func() error { return s.do(ctx, c) }); err != nil {
			return fmt.Errorf("%w\n(the log of the manager is %s, the logs of the control plane are in %s)",
				err, c.ManagerLog(), c.Logs())
		}
	}
	return printOverview(ctx, c)
}

func samplesDir() string { return filepath.Join(deployDir, "samples") }

// startManager starts the manager with the arguments of its Deployment. It reads usage more often
// than by default, so that the demo is faster.
func startManager(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.StartManager(ctx, cluster.ManagerOptions{
		Binary: managerBin, Deploy: deployDir, ExtraArgs: []string{"--metrics-interval=5s"},
	})
	return err
}

// installRelease installs the release with a CPU request that is below the lower bound of any
// recommendation, like the chart's memory request. The manager raises such requests immediately.
// Others would wait for the stabilization window.
func installRelease(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.Helm(ctx, helmVersion, "upgrade", "--install", demoRelease, demoChart,
		"--set", "resources.requests.cpu=20m", "--namespace", demoNamespace, "--create-namespace")
	return err
}

func applySamples(ctx context.Context, c *cluster.Cluster) error {
	_, err := c.Kubectl(ctx, "apply", "--server-side", "--namespace", demoNamespace, "-k", samplesDir())
	return err
}

// waitReady first waits for Upright's objects, because some of the Deployments
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

// waitFor waits until all objects of a resource or category have a condition.
func waitFor(ctx context.Context, c *cluster.Cluster, condition, resource string) error {
	_, err := c.Kubectl(ctx, "wait", "--for=condition="+condition, resource,
		"--all", "--namespace", demoNamespace, "--timeout=3m")
	return err
}
