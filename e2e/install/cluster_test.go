package install

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// server is an API server without anything of Upright.
type server struct {
	client     client.Client
	kubeconfig string
}

func startServer(t *testing.T) *server {
	t.Helper()
	environment := &envtest.Environment{}
	config, err := environment.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, environment.Stop()) })
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, environment.KubeConfig, 0o600))
	return &server{client: c, kubeconfig: kubeconfig}
}

// run runs a tool with the server's kubeconfig.
func (s *server) run(t *testing.T, tool string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(tools, tool), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir())
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return string(output)
}

// exists reports whether an object exists.
func (s *server) exists(t *testing.T, group, version, kind, namespace, name string) bool {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	err := s.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
	require.NoError(t, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func TestEachVariantOfTheChartInstalls(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, values := range map[string][]string{
		"defaults":   nil,
		"namespaced": {"--set", "namespaces={default}"},
		"options": {
			"--set", "podDisruptionBudget.create=true,networkPolicy.create=true,commonLabels.team=ops,commonAnnotations.note=x",
			"--set", "topologySpreadConstraints[0].topologyKey=zone,topologySpreadConstraints[0].maxSkew=1",
			"--set", "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
			"--set", "tolerations[0].key=dedicated,tolerations[0].operator=Exists,nodeSelector.pool=system",
			"--set", "prometheus.url=https://prometheus.example.com,extraArgs={--log-level=debug}",
		},
		"without policy and roles": {"--set", "admissionPolicy.install=false,userRoles.install=false"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"install", "upright", chart, "--namespace", namespace, "--create-namespace"}, values...)
			assert.Contains(t, s.run(t, "helm", args...), "Upright v")
			assert.True(t, s.exists(t, "apps", "v1", "Deployment", namespace, "upright-manager"))
			s.run(t, "helm", "uninstall", "upright", "--namespace", namespace)
		})
	}
}

func TestUninstallLeavesObjectsAndUpgradeKeepsThem(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run(t, "helm", "install", "upright", chart, "--namespace", namespace, "--create-namespace")
	s.run(t, "kubectl", "wait", "--for=condition=Established", "crd", "--all")
	manifest := filepath.Join(t.TempDir(), "scaler.yaml")
	require.NoError(t, os.WriteFile(manifest, bytes.TrimSpace([]byte(`
apiVersion: autoscaling.example.com/v1beta1
kind: VerticalScaler
metadata: {name: web, namespace: default}
spec: {deploymentName: web}
`)), 0o600))
	s.run(t, "kubectl", "apply", "--filename", manifest)
	hasScaler := func() bool {
		return s.exists(t, "autoscaling.example.com", "v1beta1", "VerticalScaler", "default", "web")
	}
	hasPolicy := func() bool {
		return s.exists(t, "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "", "upright-sizing")
	}
	require.True(t, hasScaler())
	require.True(t, hasPolicy())

	// An upgrade also restores what the release before had not: a field of a CustomResourceDefinition.
	s.run(t, "kubectl", "patch", "crd", "verticalscalers.autoscaling.example.com", "--type=json",
		`--patch=[{"op": "remove", "path": "/spec/names/shortNames"}]`)
	s.run(t, "helm", "upgrade", "upright", chart, "--namespace", namespace, "--set", "replicas=3", "--force-conflicts")
	assert.Contains(t, s.run(t, "kubectl", "get", "crd", "verticalscalers.autoscaling.example.com", "--output=jsonpath={.spec.names.shortNames}"), "vs")
	assert.True(t, hasScaler())

	s.run(t, "helm", "uninstall", "upright", "--namespace", namespace)
	assert.False(t, hasPolicy(), "new pods are as their template says")
	assert.False(t, s.exists(t, "apps", "v1", "Deployment", namespace, "upright-manager"))
	assert.False(t, s.exists(t, "rbac.authorization.k8s.io", "v1", "ClusterRole", "", "upright-manager"))
	assert.True(t, s.exists(t, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "verticalscalers.autoscaling.example.com"))
	assert.True(t, hasScaler())

	// A second installation takes the CustomResourceDefinitions over.
	s.run(t, "helm", "install", "upright", chart, "--namespace", namespace)
	assert.True(t, hasScaler())
}

func TestKustomizeInstallsWhatTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run(t, "kubectl", "apply", "--kustomize", manifests+"/crds")
	output := s.run(t, "kubectl", "apply", "--kustomize", manifests)
	assert.Contains(t, output, "deployment.apps/upright-manager created")
	again := s.run(t, "kubectl", "apply", "--kustomize", manifests)
	assert.NotContains(t, again, "configured", "a second apply changes nothing")
}
