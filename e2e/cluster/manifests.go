package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"example.com/upright/e2e/cluster/loopback"
)

//go:embed manifests
var embedded embed.FS

// clusterName is the same for every cluster, because each has its own KWOK_WORKDIR.
const clusterName = "upright"

// manifests returns the folder with the rendered manifests of this cluster.
func (c *Cluster) manifests() string { return c.path("manifests") }

func (c *Cluster) manifest(name string) string { return filepath.Join(c.manifests(), name) }

// components returns the folder in which kwokctl keeps the cluster.
func (c *Cluster) components() string { return filepath.Join(c.path("kwok"), "clusters", clusterName) }

// writeManifests writes the embedded files to the cluster's folder and renders those
// templates that do not depend on running processes. It returns the configuration file of
// kwokctl.
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

// render renders the template of a manifest.
func (c *Cluster) render(name string, data any) error {
	source := name + ".tmpl"
	parsed, err := template.New(source).
		Funcs(template.FuncMap{"port": loopback.Ports()}).
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

func nodeNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return names
}

func positiveOr(value, defaultValue int) int {
	if value > 0 {
		return value
	}
	return defaultValue
}
