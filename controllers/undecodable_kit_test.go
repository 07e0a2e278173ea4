package controllers

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"example.com/upright/internal/testenv"
)

// definitions are the CRDs of an API server, which accepts anything while they are loose.
type definitions struct {
	client client.Client
	strict []apiextensionsv1.CustomResourceDefinition
}

func newDefinitions(t *testing.T, environment *testenv.Environment) *definitions {
	t.Helper()
	scheme := environment.Client.Scheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(environment.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	var all apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, c.List(t.Context(), &all))
	return &definitions{client: c, strict: all.Items}
}

// loosen makes the API server accept any spec and status.
func (d *definitions) loosen(t *testing.T) {
	t.Helper()
	for i := range d.strict {
		loose := d.strict[i].DeepCopy()
		loose.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: new(true),
		}
		d.replace(t, loose)
	}
}

// restore makes the API server validate again. It does not touch what is stored.
func (d *definitions) restore(t *testing.T) {
	t.Helper()
	for i := range d.strict {
		d.replace(t, d.strict[i].DeepCopy())
	}
}

func (d *definitions) replace(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	live := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, d.client.Get(t.Context(), client.ObjectKeyFromObject(crd), live))
	live.Spec.Versions[0].Schema = crd.Spec.Versions[0].Schema
	live.Spec.Versions[0].SelectableFields = nil // A loose schema has no field to select.
	if len(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties) > 0 {
		live.Spec.Versions[0].SelectableFields = crd.Spec.Versions[0].SelectableFields
	}
	require.NoError(t, d.client.Update(t.Context(), live))
}

// startAll runs all controllers for one namespace of an environment.
func startAll(t *testing.T, environment *testenv.Environment, namespace string) *testenv.Manager {
	t.Helper()
	return environment.StartManager(t, []string{namespace}, func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
		_, err := SetupWithManager(ctx, mgr, newOptions(namespace, registry))
		return err
	})
}

// manifest returns an object from YAML.
func manifest(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
	obj.SetNamespace(namespace)
	return obj
}

// createWhenAccepted creates an object. A changed CRD takes a moment to have an effect.
func createWhenAccepted(t *testing.T, environment *testenv.Environment, obj *unstructured.Unstructured) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		err := environment.Client.Create(context.Background(), obj.DeepCopy())
		assert.True(c, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	}, testenv.Timeout, testenv.Poll)
}

// conditionOf returns a condition of an object, as "status reason: message".
func conditionOf(t require.TestingT, environment *testenv.Environment, obj *unstructured.Unstructured, conditionType string) string {
	live := obj.DeepCopy()
	require.NoError(t, environment.Client.Get(context.Background(), client.ObjectKeyFromObject(obj), live))
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, item := range conditions {
		if condition := item.(map[string]any); condition["type"] == conditionType {
			return condition["status"].(string) + " " + condition["reason"].(string) + ": " + condition["message"].(string)
		}
	}
	return ""
}
