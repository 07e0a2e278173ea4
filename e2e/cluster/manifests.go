package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"text/template"
)

//go:embed manifests
var embedded embed.FS

// clusterName is the same for every cluster: kwokctl keeps each in its own folder.
const clusterName = "upright"

// The ports come from a range that no usual system takes the ports of outgoing
// connections from, so that a port that is free now is still free when the
// component that it was chosen for listens on it.
const (
	firstPort = 20000
	lastPort  = 30000
)

// manifests is the folder with what was embedded, rendered for this cluster.
func (c *Cluster) manifests() string { return c.path("manifests") }

func (c *Cluster) manifest(name string) string { return filepath.Join(c.manifests(), name) }

// components is the folder in which kwokctl keeps the cluster.
func (c *Cluster) components() string { return filepath.Join(c.path("kwok"), "clusters", clusterName) }

// writeManifests writes the embedded files to the cluster's folder, those that
// are templates rendered, and returns the configuration for kwokctl.
func (c *Cluster) writeManifests(options Options) (string, error) {
	files, err := fs.Sub(embedded, "manifests")
	if err != nil {
		return "", fmt.Errorf("reading the embedded manifests: %w", err)
	}
	if err := os.CopyFS(c.manifests(), files); err != nil {
		return "", fmt.Errorf("writing the manifests: %w", err)
	}
	qps := positiveOr(options.QPS, defaultQPS)
	err = c.render("kwokctl.yaml", map[string]any{
		"Manifests": c.manifests(), "Tools": c.tools, "QPS": qps, "Burst": 2 * qps,
	})
	if err != nil {
		return "", err
	}
	return c.manifest("kwokctl.yaml"), c.render("nodes.yaml", map[string]any{
		"Nodes": nodeNames(positiveOr(options.Nodes, defaultNodes)),
	})
}

// render writes the manifest of a name from its template.
func (c *Cluster) render(name string, data any) error {
	source := name + ".tmpl"
	parsed, err := template.New(source).
		Funcs(template.FuncMap{"port": portChooser()}).
		ParseFS(embedded, "manifests/"+source)
	if err != nil {
		return fmt.Errorf("parsing the template %s: %w", source, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	if err := os.WriteFile(c.manifest(name), out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// portChooser returns a function that returns a free loopback port, a different
// one at each call.
func portChooser() func() (int, error) {
	chosen := map[int]bool{}
	return func() (int, error) {
		for range lastPort - firstPort {
			port := firstPort + rand.IntN(lastPort-firstPort)
			if !chosen[port] && free(port) {
				chosen[port] = true
				return port, nil
			}
		}
		return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
	}
}

func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func nodeNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return names
}

func positiveOr(value, otherwise int) int {
	if value > 0 {
		return value
	}
	return otherwise
}
