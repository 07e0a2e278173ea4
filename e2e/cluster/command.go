package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as the cluster's administrator and returns its standard
// output. If it fails, the error contains its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return run(c.command(ctx, "kubectl", args...))
}

// Apply applies manifests with server-side apply.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	kubectl := c.command(ctx, "kubectl", "apply", "--server-side", "-f", "-")
	kubectl.Stdin = strings.NewReader(manifests)
	_, err := run(kubectl)
	return err
}

// Helm runs Helm 4 or Helm 3 as the cluster's administrator and returns its
// standard output.
func (c *Cluster) Helm(ctx context.Context, version int, args ...string) (string, error) {
	switch version {
	case 3:
		return run(c.command(ctx, "helm3", args...))
	case 4:
		return run(c.command(ctx, "helm", args...))
	default:
		return "", fmt.Errorf("the tools do not include Helm %d", version)
	}
}

// command returns a command that runs a tool on this cluster. Caches are in the
// cluster's folder, so that the tool neither reads nor writes the user's files.
func (c *Cluster) command(ctx context.Context, tool string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.tools, tool), args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(),
		"KUBECACHEDIR="+c.path("cache/kubectl"),
		"KWOK_WORKDIR="+c.path("kwok"),
		"HELM_CACHE_HOME="+c.path("cache/helm"),
		"HELM_CONFIG_HOME="+c.path("cache/helm"),
		"HELM_DATA_HOME="+c.path("cache/helm"),
	)
	return cmd
}

// run runs a command and returns its standard output.
func run(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s %s: %w: %s", filepath.Base(cmd.Path),
			strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
