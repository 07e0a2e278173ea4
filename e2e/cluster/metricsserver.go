package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"example.com/upright/e2e/cluster/loopback"
	"example.com/upright/e2e/cluster/process"
)

// startMetricsServer starts metrics-server and waits until the metrics API is available.
// kwokctl cannot do this: it starts metrics-server at the same time as the API server, and
// metrics-server exits if the API server does not listen yet.
func (c *Cluster) startMetricsServer(ctx context.Context) error {
	port, err := loopback.Ports()()
	if err != nil {
		return err
	}
	if err := c.render("metrics-server.yaml", map[string]any{"Port": port}); err != nil {
		return err
	}
	if err := c.runMetricsServer(port); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"apply", "--server-side", "-f", c.manifest("metrics-server.yaml")},
		{"wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=1m"},
	} {
		if _, err := c.Kubectl(ctx, step...); err != nil {
			return fmt.Errorf("%w%s", err, process.LogExcerpt(c.metricsServerLog(), excerptLines))
		}
	}
	return nil
}

// runMetricsServer runs metrics-server.
func (c *Cluster) runMetricsServer(port int) error {
	pki := filepath.Join(c.components(), "pki")
	_, err := process.Start(filepath.Join(c.tools, "metrics-server"), c.metricsServerLog(),
		"--kubeconfig="+c.Kubeconfig(),
		"--authentication-kubeconfig="+c.Kubeconfig(),
		"--authorization-kubeconfig="+c.Kubeconfig(),
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
		"--tls-cert-file="+filepath.Join(pki, "admin.crt"),
		"--tls-private-key-file="+filepath.Join(pki, "admin.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-use-node-status-port",
		"--kubelet-insecure-tls",
		"--kubelet-request-timeout=5s",
		// The minimum, so that a change of usage shows early.
		"--metric-resolution=10s",
	)
	return err
}

func (c *Cluster) metricsServerLog() string { return filepath.Join(c.Logs(), "metrics-server.log") }

// isComponent matches the processes of the control plane. kwokctl links each binary into
// its folder and runs it from there. The arguments of metrics-server contain a certificate in
// that folder.
func (c *Cluster) isComponent(args []string) bool {
	return strings.HasPrefix(args[0], c.components()+"/") ||
		process.Runs("metrics-server", c.components())(args)
}
