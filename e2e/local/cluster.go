package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/upright/e2e/cluster"
)

// Paths in the repository.
const (
	clusterDir = ".cluster"
	toolsDir   = ".tools/bin"
	deployDir  = "deploy"
	managerBin = "bin/manager"
)

// step runs one step of a command, and prints its name and how long it took.
func step(name string, do func() error) error {
	fmt.Printf("%s ... ", name)
	start := time.Now()
	if err := do(); err != nil {
		fmt.Printf("failed after %.1f s\n", time.Since(start).Seconds())
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%.1f s\n", time.Since(start).Seconds())
	return nil
}

// up returns the local cluster. It starts the cluster unless it already runs.
func up(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.Open(clusterDir, toolsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err == nil && c.Ready(ctx) == nil {
		fmt.Printf("the cluster already runs, its kubeconfig is %s\n", c.Kubeconfig())
		return c, nil
	}
	err = step("starting the cluster", func() (err error) {
		c, err = cluster.Start(ctx, cluster.Options{Dir: clusterDir, Tools: toolsDir})
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Printf("the cluster's kubeconfig is %s\n", c.Kubeconfig())
	return c, nil
}

func down(ctx context.Context) error {
	return step("stopping the manager and the cluster", func() error {
		return cluster.Stop(ctx, clusterDir)
	})
}

// run installs Upright and runs the manager in the foreground. It stops the manager
// of a demo first.
func run(ctx context.Context) error {
	c, err := up(ctx)
	if err != nil {
		return err
	}
	if err := install(ctx, c); err != nil {
		return err
	}
	manager, err := c.StartManager(ctx, cluster.ManagerOptions{
		Binary: managerBin, Deploy: deployDir, Output: os.Stdout,
	})
	if err != nil {
		return err
	}
	select {
	case <-manager.Exited():
		return manager.Wait()
	case <-ctx.Done():
		return manager.Stop(context.WithoutCancel(ctx))
	}
}

// install installs Upright and stops the previous manager, if any.
func install(ctx context.Context, c *cluster.Cluster) error {
	err := step("installing Upright", func() error { return c.InstallUpright(ctx, deployDir) })
	if err != nil {
		return err
	}
	return step("stopping the previous manager", func() error { return c.StopManager(ctx) })
}
