// Package e2e_test shows Upright at work on a whole cluster: what takes the real garbage
// collector, real controllers and schedulers, Helm, the RBAC of deploy/ or a restart of the
// manager.
//
// All tests share one cluster and one manager, which runs under its ServiceAccount. Each
// works in namespaces of its own, and none deletes what another looks at. Tests that stop
// the manager are not parallel: they run before all others.
package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/upright/apis"
	"example.com/upright/e2e/cluster"
	"example.com/upright/e2e/cluster/process"
	"example.com/upright/e2e/prometheus"
)

const (
	tools  = "../.tools/bin"
	deploy = "../deploy"

	// parallel is how many tests run at a time: nearly all that they do is wait.
	parallel = "12"
)

// environment is the cluster that the tests share.
type environment struct {
	*cluster.Cluster

	config  *rest.Config
	client  client.WithWatch
	binary  string
	manager *cluster.Manager // Only tests that are not parallel replace it.
	guard   *guard
}

var env *environment

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard()) // What a client is warned of concerns no test.
	if flagValue("test.list") != "" || flagValue("test.run") == "^$" {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

// run runs the tests on a cluster and returns the exit code.
func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := onCluster(ctx, func() error { return runTests(ctx, m) }); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: %v\n", err)
		return 1
	}
	return 0
}

// onCluster runs f while the cluster and the manager run.
func onCluster(ctx context.Context, f func() error) (err error) {
	dir, err := os.MkdirTemp("", "upright-e2e-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Tools: tools})
	if err != nil {
		return fmt.Errorf("start the cluster (are the tools built? make tools): %w", err)
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, prometheus.Stop(ctx, dir), c.Stop(ctx)) // Interrupted tests stop nothing.
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // What watches the cluster stops before it.
	if env, err = newEnvironment(ctx, c); err != nil {
		return err
	}
	return f()
}

// newEnvironment installs Upright on the cluster and starts its manager.
func newEnvironment(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	withWatch, err := client.NewWithWatch(config, client.Options{Scheme: apis.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	binary := filepath.Join(c.Dir(), "bin", "manager")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "../cmd/manager")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the manager: %w: %s", err, out)
	}
	if err := c.InstallUpright(ctx, deploy); err != nil {
		return nil, err
	}
	guard, err := startGuard(ctx, withWatch)
	if err != nil {
		return nil, err
	}
	e := &environment{Cluster: c, config: config, client: withWatch, binary: binary, guard: guard}
	if err := e.startManager(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// startManager starts the manager as it is deployed, but for the time between two readings of
// usage, which tests would have to wait for, and for arguments that come after its own.
func (e *environment) startManager(ctx context.Context, args ...string) (err error) {
	e.manager, err = e.newManager(ctx, args...)
	return err
}

// newManager starts a manager beside the one that may run.
func (e *environment) newManager(ctx context.Context, args ...string) (*cluster.Manager, error) {
	return e.StartManager(ctx, cluster.ManagerOptions{
		Binary: e.binary, Deploy: deploy, ExtraArgs: append([]string{"--metrics-interval=2s"}, args...),
	})
}

// runTests runs the tests and then looks at what the manager did during all of them.
func runTests(ctx context.Context, m *testing.M) error {
	if err := setParallel(); err != nil {
		return err
	}
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	var failure error
	select {
	case code := <-done:
		if code != 0 {
			failure = errors.New("not all tests of the manager passed" + process.LogExcerpt(env.ManagerLog(), 30))
		}
	case <-ctx.Done():
		return errors.New("interrupted: the cluster has been stopped")
	}
	// The requests of a manager that has stopped are all in the audit log.
	failure = errors.Join(failure, env.manager.Stop(ctx))
	requests, err := auditedRequests()
	if err != nil {
		return errors.Join(failure, err)
	}
	failure = errors.Join(failure, env.guard.check(requests), checkOwners(ctx), checkAllCreatable(ctx, env.client))
	whole := failure == nil && flagValue("test.run") == "" && flagValue("test.skip") == ""
	return errors.Join(failure, checkPermissions(ctx, requests, whole))
}

// setParallel lets more tests run at a time than there are cores, unless told otherwise.
func setParallel() error {
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return nil
	}
	return flag.Set("test.parallel", parallel)
}

func flagValue(name string) string {
	return flag.Lookup(name).Value.String()
}
