// Package cluster runs a whole Kubernetes cluster on this machine: the real etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and metrics-server, and
// kwok in place of the kubelets. It needs no images and no privileges, listens
// only on loopback, and writes only to its own folder.
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

// Options are the options of Start.
type Options struct {
	// Dir is the folder for everything that the cluster writes. Two running clusters
	// must not share it.
	Dir string
	// Tools is the folder with the binaries of Kubernetes, etcd, kwok, metrics-server
	// and Helm.
	Tools string
	// Nodes is the number of simulated nodes. The default is 3.
	Nodes int
	// QPS limits the requests per second of kube-controller-manager and of
	// kube-scheduler. The default is 500. Bursts may be twice as high.
	QPS int
}

// Cluster is a started cluster.
type Cluster struct {
	dir   string
	tools string
}

// Start starts a cluster and waits until its nodes and its metrics API are
// ready. It first stops and removes a previous cluster in the folder. If it
// fails, it stops all processes and keeps the logs.
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

// Open returns the cluster that runs in a folder. It returns an error that is
// [os.ErrNotExist] if no cluster has been started there.
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

// Stop stops the cluster in a folder. It is no error if the cluster does not run,
// has lost some of its processes, or was never started.
func Stop(ctx context.Context, dir string) error {
	c, err := locate(dir, "")
	if err != nil {
		return err
	}
	return c.Stop(ctx)
}

// Stop ends every process of the cluster, including the manager, and removes
// what the cluster wrote, except for the manager's log. It does nothing if
// nothing runs.
func (c *Cluster) Stop(ctx context.Context) error {
	if err := c.end(ctx); err != nil {
		return err
	}
	for _, path := range []string{c.Kubeconfig(), c.managerKubeconfig(), c.manifests(), c.path("kwok"), c.path("cache")} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the files of the cluster: %w", err)
		}
	}
	return nil
}

// Dir returns the folder of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig returns the file with the cluster administrator's credentials.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Logs returns the folder with one log per process of the control plane.
func (c *Cluster) Logs() string { return filepath.Join(c.components(), "logs") }

// AuditLog returns the file to which the API server writes the manager's requests,
// at level Metadata, one JSON object per line.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Logs(), "audit.log") }

// ManagerLog returns the default log file of the managers of this cluster.
func (c *Cluster) ManagerLog() string { return filepath.Join(c.path("logs"), "manager.log") }

// Config returns the cluster administrator's client configuration, without a limit
// on the rate of requests.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Ready returns an error unless the readiness check of the API server succeeds.
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

// start creates the control plane, configures how kwok simulates nodes and pods,
// and adds the nodes.
func (c *Cluster) start(ctx context.Context, options Options) error {
	config, err := c.writeManifests(options)
	if err != nil {
		return err
	}
	create := c.command(ctx, "kwokctl", "create", "cluster",
		"--name", clusterName, "--config", config, "--kubeconfig", c.Kubeconfig(), "--timeout", startTimeout.String())
	if _, err := run(create); err != nil {
		return fmt.Errorf("starting the control plane (its logs are in %s): %w", c.Logs(), err)
	}
	if err := c.waitEstablished(ctx); err != nil {
		return fmt.Errorf("waiting until the API server serves the kinds of kwok: %w", err)
	}
	for _, step := range [][]string{
		{"apply", "--server-side", "-f", c.manifest("simulation")},
		{"apply", "--server-side", "-f", c.manifest("nodes.yaml")},
		{"wait", "--for=condition=Ready", "nodes", "--all", "--timeout=1m"},
	} {
		if _, err := c.Kubectl(ctx, step...); err != nil {
			return fmt.Errorf("preparing the cluster (its logs are in %s): %w", c.Logs(), err)
		}
	}
	if err := c.startMetricsServer(ctx); err != nil {
		return fmt.Errorf("serving the metrics API: %w", err)
	}
	return nil
}

// end ends the manager, so that it releases its lease, and then the control plane.
// That gets no grace period, because nobody needs its data any more.
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
