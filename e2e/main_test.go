// Package e2e_test tests Upright on a whole cluster. It covers what needs the real garbage
// collector, real controllers and schedulers, Helm, the RBAC of deploy/, Prometheus, or a restart
// of the manager. Tests that need only an API server are next to the code that they test.
//
// All tests share one cluster and one manager, which runs under its ServiceAccount. Each test uses
// its own namespaces, and deletes nothing that another test reads. Tests that stop the manager are
// not parallel: Go runs them before all others.
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
	"example.com/upright/internal/testenv"
)

const (
	tools  = "../.tools/bin"
	deploy = "../deploy"

	// parallel is how many tests run at a time. They spend nearly all their time waiting.
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
	log.SetLogger(logr.Discard()) // No test reads the client's warnings.
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

// onCluster starts the cluster and the manager, runs f, and stops the cluster.
func onCluster(ctx context.Context, f func() error) (err error) {
	dir, err := os.MkdirTemp("", "upright-e2e-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Tools: tools})
	if err != nil {
		return fmt.Errorf("start the cluster (if the tools are missing, run make tools): %w", err)
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, prometheus.Stop(ctx, dir), c.Stop(ctx)) // Interrupted tests leave processes behind.
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Watches end before the cluster stops.
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

// startManager starts the manager with the arguments of its Deployment, then a short interval
// between two readings of usage so that tests wait less, then args.
func (e *environment) startManager(ctx context.Context, args ...string) (err error) {
	e.manager, err = e.newManager(ctx, args...)
	return err
}

// newManager starts a manager and does not replace the current one.
func (e *environment) newManager(ctx context.Context, args ...string) (*cluster.Manager, error) {
	return e.StartManager(ctx, cluster.ManagerOptions{
		Binary: e.binary, Deploy: deploy, ExtraArgs: append([]string{"--metrics-interval=2s"}, args...),
	})
}

// runTests runs the tests and then checks everything that the manager did during the tests.
func runTests(ctx context.Context, m *testing.M) error {
	if err := testenv.SetParallel(parallel); err != nil {
		return err
	}
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	var failure error
	select {
	case code := <-done:
		if code != 0 {
			failure = errors.New("tests of the manager failed" + process.LogExcerpt(env.ManagerLog(), 30))
		}
	case <-ctx.Done():
		return errors.New("interrupted: the cluster has been stopped")
	}
	// When the manager has stopped, the audit log has all its requests.
	failure = errors.Join(failure, env.manager.Stop(ctx))
	requests, err := auditedRequests()
	if err != nil {
		return errors.Join(failure, err)
	}
	failure = errors.Join(failure, env.guard.check(requests), checkOwners(ctx), checkAllCreatable(ctx, env.client))
	whole := failure == nil && flagValue("test.run") == "" && flagValue("test.skip") == ""
	return errors.Join(failure, checkPermissions(ctx, requests, whole))
}

func flagValue(name string) string {
	return flag.Lookup(name).Value.String()
}
