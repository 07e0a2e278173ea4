package prometheus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	// metricsPath is the path of a kubelet's resource metrics. The annotation has the path of a
	// simulated node, because simulated nodes share one address.
	metricsPath           = "/metrics/resource"
	metricsPathAnnotation = "metrics.k8s.io/resource-metrics-path"

	// retention is longer than any history in a test, so that Prometheus deletes no samples.
	retention = "1y"

	// blockDuration is a month: fewer blocks are faster to write than one per two hours.
	blockDuration = "744h"
)

func (s *Server) config() string { return filepath.Join(s.dir, "prometheus.yaml") }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// writeConfig writes the configuration. Each node is a target.
func (s *Server) writeConfig(nodes []corev1.Node) error {
	targets := make([]any, 0, len(nodes))
	for i := range nodes {
		target, err := targetOf(&nodes[i])
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	config, err := yaml.Marshal(map[string]any{
		"global":  map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s"},
		"storage": map[string]any{"tsdb": map[string]any{"retention": map[string]any{"time": retention}}},
		"scrape_configs": []any{
			map[string]any{"job_name": "kubelet", "static_configs": targets},
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the configuration of Prometheus: %w", err)
	}
	if err := os.WriteFile(s.config(), config, 0o600); err != nil {
		return fmt.Errorf("writing the configuration of Prometheus: %w", err)
	}
	return nil
}

// targetOf returns the node as an element of static_configs. Its label distinguishes it from
// other nodes with the same address.
func targetOf(node *corev1.Node) (map[string]any, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	path := node.Annotations[metricsPathAnnotation]
	if path == "" {
		path = metricsPath
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && port > 0 {
			return map[string]any{
				"targets": []string{net.JoinHostPort(address.Address, strconv.Itoa(int(port)))},
				"labels":  map[string]string{"__metrics_path__": path, "node": node.Name},
			}, nil
		}
	}
	return nil, fmt.Errorf("node %s has no internal IP address or no kubelet port yet", node.Name)
}

// importPast creates blocks from the samples that past writes.
func (s *Server) importPast(ctx context.Context, past func(io.Writer) error) error {
	file := filepath.Join(s.dir, "past.txt")
	if err := write(file, past); err != nil {
		return fmt.Errorf("writing past samples: %w", err)
	}
	promtool := exec.CommandContext(ctx, filepath.Join(s.tools, "promtool"),
		"tsdb", "create-blocks-from", "--quiet", "--max-block-duration="+blockDuration, "openmetrics", file, s.data())
	if out, err := promtool.CombinedOutput(); err != nil {
		return fmt.Errorf("creating blocks from %s: %w: %s", file, err, out)
	}
	return nil
}

func write(name string, content func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	return errors.Join(content(buffered), buffered.Flush(), file.Close())
}
