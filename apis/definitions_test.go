package apis_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"example.com/upright/apis"
	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/testenv"
)

// definitions returns the deployed CRDs by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(), "deploy", "crds", "*.example.com_*.yaml"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(testenv.Root(), "deploy", "crds", "example.com_*.yaml"))
	require.NoError(t, err)
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range append(files, more...) {
		manifest, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(manifest, crd), file)
		byKind[crd.Spec.Names.Kind] = crd
	}
	require.Len(t, byKind, len(templates))
	return byKind
}

func TestEveryFieldHasADescription(t *testing.T) {
	for kind, crd := range definitions(t) {
		for name, part := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties {
			if name != "metadata" { // Kubernetes adds its description.
				assertDescribed(t, kind+"."+name, part)
			}
		}
	}
}

func assertDescribed(t *testing.T, path string, fields apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	assert.NotEmpty(t, fields.Description, path)
	assert.NotContains(t, fields.Description, "TODO", path)
	for name, property := range fields.Properties {
		assertDescribed(t, path+"."+name, property)
	}
	if fields.Items != nil && fields.Items.Schema != nil {
		for name, property := range fields.Items.Schema.Properties {
			assertDescribed(t, path+"."+name, property)
		}
	}
}

func TestKindsHaveCategoriesAndShortNames(t *testing.T) {
	upright := []string{"upright"}
	for kind, want := range map[string]struct{ categories, shortNames []string }{
		"Busybox":        {upright, []string{"bb"}},
		"Memcached":      {upright, []string{"mc"}},
		"Foo":            {upright, nil},
		"VerticalScaler": {upright, []string{"vs"}},
		// Checkpoints are internal to the manager. Users neither apply them nor wait for them.
		"VerticalScalerCheckpoint": {nil, []string{"vscp"}},
		// Users only read SizeTables.
		"SizeTable": {nil, []string{"szt"}},
	} {
		names := definitions(t)[kind].Spec.Names
		assert.Equal(t, want.categories, names.Categories, kind)
		assert.Equal(t, want.shortNames, names.ShortNames, kind)
	}
}

// `kubectl wait --for condition=Ready --all upright` waits for each object of the category.
func TestCategoryHasExactlyTheKindsWithReady(t *testing.T) {
	for kind, crd := range definitions(t) {
		version := crd.Spec.Versions[0]
		inCategory := slices.Contains(crd.Spec.Names.Categories, "upright")
		assert.Equal(t, inCategory, version.Subresources != nil && version.Subresources.Status != nil, "%s has a status", kind)
		var columns []string
		for _, column := range version.AdditionalPrinterColumns {
			columns = append(columns, column.Name)
		}
		for _, name := range []string{"Ready", "Reason"} {
			assert.Equal(t, inCategory, slices.Contains(columns, name), "%s prints %s", kind, name)
		}
		assert.Contains(t, columns, "Age", kind)
	}
}

func TestOnlyOwningKindsHaveAScaleSubresource(t *testing.T) {
	owning := []string{"Busybox", "Memcached", "Foo"}
	for kind, crd := range definitions(t) {
		subresources := crd.Spec.Versions[0].Subresources
		assert.Equal(t, slices.Contains(owning, kind), subresources != nil && subresources.Scale != nil, kind)
	}
}

func TestMemcachedSharesConditionTypes(t *testing.T) {
	assert.Equal(t, examplev1alpha1.ConditionReady, cachev1alpha1.ConditionReady)
	assert.Equal(t, examplev1alpha1.ConditionAvailable, cachev1alpha1.ConditionAvailable)
	assert.Equal(t, examplev1alpha1.ConditionProgressing, cachev1alpha1.ConditionProgressing)
	assert.Equal(t, examplev1alpha1.ConditionDegraded, cachev1alpha1.ConditionDegraded)
}

func TestSchemeIncludesEveryKind(t *testing.T) {
	scheme := apis.NewScheme()
	for _, kind := range []schema.GroupVersionKind{
		examplev1alpha1.GroupVersion.WithKind("Busybox"),
		examplev1alpha1.GroupVersion.WithKind("Foo"),
		cachev1alpha1.GroupVersion.WithKind("Memcached"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScalerCheckpoint"),
	} {
		assert.True(t, scheme.Recognizes(kind), kind)
		kind.Kind += "List"
		assert.True(t, scheme.Recognizes(kind), kind)
	}
}

func TestMinimalObjectsGetDefaults(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)

	busybox := &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	require.NoError(t, env.Client.Create(t.Context(), busybox))
	assert.Equal(t, int32(1), *busybox.Spec.Size)
	assert.Equal(t, "busybox:1.37.0", busybox.Spec.Image)
	assert.Equal(t, "10m", busybox.Spec.Resources.Requests.CPU.String())
	assert.Equal(t, "64Mi", busybox.Spec.Resources.Limits.Memory.String())

	memcached := &cachev1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	require.NoError(t, env.Client.Create(t.Context(), memcached))
	assert.Equal(t, int32(1), *memcached.Spec.Size)
	assert.Equal(t, "memcached:1.6.26-alpine3.19", memcached.Spec.Image)
	assert.Equal(t, "80Mi", memcached.Spec.Resources.Requests.Memory.String())

	foo := &examplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	foo.Spec.DeploymentName = "web"
	require.NoError(t, env.Client.Create(t.Context(), foo))
	assert.Equal(t, int32(1), *foo.Spec.Replicas)
	assert.Equal(t, "32Mi", foo.Spec.Resources.Requests.Memory.String())

	scaler := object(t, namespace, "VerticalScaler", "{deploymentName: web, containerPolicies: [{containerName: '*'}]}")
	require.NoError(t, createStrictly(t, scaler))
	typed := &autoscalingv1beta1.VerticalScaler{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), typed))
	assert.Equal(t, autoscalingv1beta1.UpdateModeInPlaceOrRollout, typed.Spec.UpdateMode)
	policy := typed.Spec.ContainerPolicies[0]
	assert.Equal(t, autoscalingv1beta1.ContainerModeAuto, policy.Mode)
	assert.Equal(t, []autoscalingv1beta1.ControlledResource{"cpu", "memory"}, policy.ControlledResources)
	assert.Equal(t, autoscalingv1beta1.ControlledValuesRequestsAndLimits, policy.ControlledValues)
	assert.Nil(t, typed.Spec.Recommendation)

	for name, conditions := range map[string][]metav1.Condition{
		"Busybox": busybox.Status.Conditions, "Memcached": memcached.Status.Conditions,
		"Foo": foo.Status.Conditions, "VerticalScaler": typed.Status.Conditions,
	} {
		require.Len(t, conditions, 1, name)
		assert.Equal(t, "Ready", conditions[0].Type, name)
		assert.Equal(t, metav1.ConditionUnknown, conditions[0].Status, name)
		assert.Equal(t, "Pending", conditions[0].Reason, name)
	}
}

func TestDeploymentNameIsASelectableField(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for _, name := range []string{"web", "web", "api"} {
		require.NoError(t, createStrictly(t, object(t, namespace, "VerticalScaler", "{deploymentName: "+name+"}")))
		require.NoError(t, createStrictly(t, object(t, namespace, "Foo", "{deploymentName: "+name+"}")))
	}
	selected := client.MatchingFields{"spec.deploymentName": "web"}
	var scalers autoscalingv1beta1.VerticalScalerList
	require.NoError(t, env.Client.List(t.Context(), &scalers, client.InNamespace(namespace), selected))
	assert.Len(t, scalers.Items, 2)
	var foos examplev1alpha1.FooList
	require.NoError(t, env.Client.List(t.Context(), &foos, client.InNamespace(namespace), selected))
	assert.Len(t, foos.Items, 2)
}
