package apis_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"example.com/upright/internal/testenv"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) { env = e }))
}

// templates are manifests with the placeholder SPEC for the spec, or for what a kind has instead.
var templates = map[string]string{
	"Busybox":                  "{apiVersion: example.com/v1alpha1, kind: Busybox, metadata: {generateName: a-}, spec: SPEC}",
	"Foo":                      "{apiVersion: example.com/v1alpha1, kind: Foo, metadata: {generateName: a-}, spec: SPEC}",
	"Memcached":                "{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {generateName: a-}, spec: SPEC}",
	"VerticalScaler":           "{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScaler, metadata: {generateName: a-}, spec: SPEC}",
	"VerticalScalerCheckpoint": "{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScalerCheckpoint, metadata: {generateName: a-}, data: SPEC}",
	"SizeTable":                "{apiVersion: autoscaling.example.com/v1beta1, kind: SizeTable, metadata: {name: upright}, deployments: SPEC}",
}

// object returns an object of a kind. The spec is in YAML flow style.
func object(t *testing.T, namespace, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(templates[kind], "SPEC", spec, 1)), &obj.Object))
	obj.SetNamespace(namespace)
	return obj
}

// createStrictly creates an object like kubectl does: unknown fields are errors.
func createStrictly(t *testing.T, obj client.Object) error {
	t.Helper()
	return env.Client.Create(t.Context(), obj, client.FieldValidation("Strict"))
}
