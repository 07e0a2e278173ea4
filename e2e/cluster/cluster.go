// Package cluster runs a whole Kubernetes cluster on this machine: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and metrics-server as
// they are, and kwok in place of the kubelets. It needs no image and no
// privilege, listens on loopback only, and writes only below a folder of its own.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"example.com/upright/e2e/cluster/process"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute

	defaultNodes = 3
	defaultQPS   = 500
)

// Options says where a cluster lives and how large it is.
type Options struct {
	// Dir holds everything that the cluster writes. No two running clusters may
	// share it.
	Dir string
	// Tools is the folder of the binaries to run: those of Kubernetes, etcd, kwok,
	// metrics-server and Helm.
	Tools string
	// Nodes is the number of simulated nodes, 3 by default.
	Nodes int
	// QPS limits the requests a second of kube-controller-manager and of
	// kube-scheduler, 500 by default, with bursts of twice as many.
	QPS int
}

// Cluster is a cluster that has been started.
type Cluster struct {
	dir   string
	tools string
}

// Start starts a cluster and waits until its nodes and its metrics API are
// ready. Whatever runs or lies in the folder from before is removed first.
// When it fails, no process is left, but the logs are.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c, err := locate(options.Dir, options.Tools)
	if err != nil {
		return nil, err
	}
	if err := c.Stop(ctx); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(starting, options); err != nil {
		return nil, errors.Join(err, c.end(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Open returns the cluster that runs in a folder. It fails with an error that is
// [os.ErrNotExist] where none has been started.
func Open(dir, tools string) (*Cluster, error) {
	c, err := locate(dir, tools)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("opening the cluster in %s: %w", c.dir, err)
	}
	return c, nil
}

// Stop stops the cluster that lives in a folder, whether or not it runs, is still
// whole, or was ever started.
func Stop(ctx context.Context, dir string) error {
	c, err := locate(dir, "")
	if err != nil {
		return err
	}
	return c.Stop(ctx)
}

// Stop ends every process of the cluster, the manager's included, and removes
// what the cluster wrote, except for the manager's log. It does no harm to call
// it where nothing runs.
func (c *Cluster) Stop(ctx context.Context) error {
	if err := c.end(ctx); err != nil {
		return err
	}
	for _, path := range []string{c.Kubeconfig(), c.managerKubeconfig(), c.manifests(), c.path("kwok"), c.path("cache")} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what the cluster wrote: %w", err)
		}
	}
	return nil
}

// Dir is the folder of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig is the file with the cluster administrator's credentials.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Logs is the folder with a log for each process of the control plane.
func (c *Cluster) Logs() string { return filepath.Join(c.components(), "logs") }

// AuditLog is the file to which the API server writes the manager's requests, at
// level Metadata, one JSON object a line.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Logs(), "audit.log") }

// ManagerLog is the file to which the managers of this cluster write by default.
func (c *Cluster) ManagerLog() string { return filepath.Join(c.path("logs"), "manager.log") }

// Config is the cluster administrator's client configuration, without a limit on
// the rate of requests.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Ready tells whether the API server answers and says that it is ready.
func (c *Cluster) Ready(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "get", "--raw", "/readyz", "--request-timeout=5s")
	return err
}

func locate(dir, tools string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("locating the cluster: %w", err)
	}
	tools, err = filepath.Abs(tools)
	if err != nil {
		return nil, fmt.Errorf("locating the tools: %w", err)
	}
	return &Cluster{dir: dir, tools: tools}, nil
}

// start creates the control plane, teaches kwok how its nodes and pods behave,
// and adds the nodes.
func (c *Cluster) start(ctx context.Context, options Options) error {
	config, err := c.writeManifests(options)
	if err != nil {
		return err
	}
	create := c.command(ctx, "kwokctl", "create", "cluster",
		"--name", clusterName, "--config", config, "--kubeconfig", c.Kubeconfig(), "--timeout", startTimeout.String())
	if _, err := run(create); err != nil {
		return fmt.Errorf("starting the control plane, whose logs are in %s: %w", c.Logs(), err)
	}
	if err := c.waitEstablished(ctx); err != nil {
		return fmt.Errorf("waiting for the kinds of kwok to be served: %w", err)
	}
	for _, step := range [][]string{
		{"apply", "--server-side", "-f", c.manifest("simulation")},
		{"apply", "--server-side", "-f", c.manifest("nodes.yaml")},
		{"wait", "--for=condition=Ready", "nodes", "--all", "--timeout=1m"},
	} {
		if _, err := c.Kubectl(ctx, step...); err != nil {
			return fmt.Errorf("preparing the cluster, whose logs are in %s: %w", c.Logs(), err)
		}
	}
	if err := c.startMetricsServer(ctx); err != nil {
		return fmt.Errorf("serving the metrics API: %w", err)
	}
	return nil
}

// end ends the manager, which then gives up its lease, and after it the control
// plane, whose data nobody will read again.
func (c *Cluster) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := c.StopManager(ctx); err != nil {
		return err
	}
	if err := process.End(ctx, c.isComponent, 0); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }
