// Package install tests the ways to install Upright: each creates the same objects.
package install

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	tools     = "../../.tools/bin"
	manifests = "../../deploy"
	chart     = manifests + "/charts/upright"
	namespace = "upright-system"
)

func TestChartCreatesTheSameObjectsAsKustomize(t *testing.T) {
	t.Parallel()
	kustomized := render(t, "kubectl", "kustomize", manifests)
	// Helm creates the namespace itself, with --create-namespace.
	delete(kustomized, "Namespace//"+namespace)
	charted := template(t)
	assert.ElementsMatch(t, keys(kustomized), keys(charted))
	for key, want := range kustomized {
		if got := charted[key]; got != nil {
			assert.Equal(t, essence(want), essence(got), key)
		}
	}
}

func TestNamespacedChartGrantsNothingInOtherNamespaces(t *testing.T) {
	t.Parallel()
	objects := template(t, "--set", "namespaces={team-a,team-b}")
	role := objects["ClusterRole//upright-manager"]
	require.NotNil(t, role)
	for _, rule := range rulesOf(t, role) {
		for _, resource := range rule["resources"].([]any) {
			assert.Contains(t, []string{
				"nodes", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "tokenreviews", "subjectaccessreviews",
			}, resource, "the ClusterRole has only resources without a namespace")
		}
	}
	all := rulesOf(t, template(t)["ClusterRole//upright-manager"])
	for _, team := range []string{"team-a", "team-b"} {
		inNamespace := objects["Role/"+team+"/upright-manager"]
		require.NotNil(t, inNamespace, team)
		assert.Equal(t, pairs(all), merge(pairs(rulesOf(t, role)), pairs(rulesOf(t, inNamespace))), "nothing is lost")
		assert.NotNil(t, objects["RoleBinding/"+team+"/upright-manager"])
	}
	assert.Contains(t, argsOf(t, objects), "--namespaces=team-a,team-b")
}

func TestChartRendersEachOption(t *testing.T) {
	t.Parallel()
	objects := template(t,
		"--set", "image.repository=registry.example.com/upright,image.digest=sha256:abc",
		"--set", "prometheus.url=https://prometheus.example.com",
		"--set", "podDisruptionBudget.create=true,networkPolicy.create=true,serviceMonitor.create=true",
		"--set", "priorityClassName=system-cluster-critical,commonLabels.team=ops,commonAnnotations.note=x",
		"--set", "topologySpreadConstraints[0].topologyKey=zone,topologySpreadConstraints[0].maxSkew=1")
	for _, kind := range []string{"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"} {
		assert.NotNil(t, objects[kind+"/"+namespace+"/upright-manager"], kind)
	}
	assert.Contains(t, argsOf(t, objects), "--prometheus-url=https://prometheus.example.com")
	spec := objects["Deployment/"+namespace+"/upright-manager"].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	assert.Equal(t, "registry.example.com/upright@sha256:abc", spec["containers"].([]any)[0].(map[string]any)["image"])
	assert.Equal(t, "system-cluster-critical", spec["priorityClassName"])
	assert.NotNil(t, spec["topologySpreadConstraints"].([]any)[0].(map[string]any)["labelSelector"])
	for key, obj := range objects {
		assert.Equal(t, "ops", obj.GetLabels()["team"], key)
		assert.Equal(t, "x", obj.GetAnnotations()["note"], key)
	}
	without := template(t, "--set", "crds.install=false,admissionPolicy.install=false,userRoles.install=false")
	for key := range without {
		assert.NotRegexp(t, "^(CustomResourceDefinition|MutatingAdmissionPolicy)", key)
	}
}

func TestUninstallKeepsTheCustomResourceDefinitions(t *testing.T) {
	t.Parallel()
	count := 0
	for key, obj := range template(t) {
		if obj.GetKind() == "CustomResourceDefinition" {
			count++
			assert.Equal(t, "keep", obj.GetAnnotations()["helm.sh/resource-policy"], key)
		}
	}
	assert.Equal(t, 6, count)
}

func TestChartRejectsWrongValues(t *testing.T) {
	t.Parallel()
	for value, message := range map[string]string{
		"replicas=none":         "replicas",
		"replicaCount=3":        "replicaCount",
		"namespaces={Team_A}":   "namespaces",
		"image.pullPolicy=Once": "pullPolicy",
	} {
		output, err := exec.Command(filepath.Join(tools, "helm"), "template", "upright", chart, "--set", value).CombinedOutput()
		require.Error(t, err, value)
		assert.Contains(t, string(output), message)
	}
}

// template returns the objects of the chart.
func template(t *testing.T, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	return render(t, "helm", append([]string{"template", "upright", chart, "--namespace", namespace}, args...)...)
}

// render runs a tool that prints objects, and returns them by kind, namespace and name.
func render(t *testing.T, tool string, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	command := exec.Command(filepath.Join(tools, tool), args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "%s", &stderr)
	objects := map[string]*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(output), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if len(obj.Object) > 0 {
			key := strings.Join([]string{obj.GetKind(), obj.GetNamespace(), obj.GetName()}, "/")
			require.NotContains(t, objects, key, "rendered twice")
			objects[key] = obj
		}
	}
}

func keys(objects map[string]*unstructured.Unstructured) []string {
	var all []string
	for key := range objects {
		all = append(all, key)
	}
	return all
}

// essence returns an object without what may differ: its labels, except those that aggregate
// roles, its annotations, and the image.
func essence(obj *unstructured.Unstructured) map[string]any {
	stripped := obj.DeepCopy()
	labels := map[string]string{}
	for name, value := range obj.GetLabels() {
		if strings.HasPrefix(name, "rbac.authorization.k8s.io/") {
			labels[name] = value
		}
	}
	stripped.SetLabels(labels)
	stripped.SetAnnotations(nil)
	if obj.GetKind() == "Deployment" {
		container := stripped.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		delete(container, "image")
		delete(container, "imagePullPolicy")
	}
	return withoutSpace(stripped.Object).(map[string]any)
}

// withoutSpace returns a value with single spaces in its strings. Kustomize folds long strings in
// another way than Helm.
func withoutSpace(value any) any {
	switch value := value.(type) {
	case string:
		return strings.Join(strings.Fields(value), " ")
	case []any:
		for i := range value {
			value[i] = withoutSpace(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = withoutSpace(value[key])
		}
	}
	return value
}

func rulesOf(t *testing.T, role *unstructured.Unstructured) []map[string]any {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	require.NoError(t, err)
	var all []map[string]any
	for _, rule := range rules {
		all = append(all, rule.(map[string]any))
	}
	return all
}

// pairs returns each granted verb on each resource.
func pairs(rules []map[string]any) map[string]bool {
	granted := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule["apiGroups"].([]any) {
			for _, resource := range rule["resources"].([]any) {
				for _, verb := range rule["verbs"].([]any) {
					granted[verb.(string)+" "+resource.(string)+"."+group.(string)] = true
				}
			}
		}
	}
	return granted
}

func merge(a, b map[string]bool) map[string]bool {
	for key := range b {
		a[key] = true
	}
	return a
}

func argsOf(t *testing.T, objects map[string]*unstructured.Unstructured) []any {
	t.Helper()
	d := objects["Deployment/"+namespace+"/upright-manager"]
	require.NotNil(t, d)
	container := d.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	return container["args"].([]any)
}
