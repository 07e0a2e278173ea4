package indexers

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// registration is what an Add function asks of a field indexer.
type registration struct {
	obj     client.Object
	field   string
	extract client.IndexerFunc
}

// fakeIndexer records registrations and answers each with err.
type fakeIndexer struct {
	registrations []registration
	err           error
}

func (f *fakeIndexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	f.registrations = append(f.registrations, registration{obj, field, extract})
	return f.err
}

// indexes are all indexes; a field is the literal that lookups have to name.
var indexes = map[string]struct {
	add      func(context.Context, client.FieldIndexer) error
	constant string
	field    string
	kind     client.Object
}{
	"BusyboxName": {
		AddBusyboxName, BusyboxName, "metadata.name", &examplev1alpha1.Busybox{},
	},
	"MemcachedName": {
		AddMemcachedName, MemcachedName, "metadata.name", &cachev1alpha1.Memcached{},
	},
	"FooDeploymentName": {
		AddFooDeploymentName, FooDeploymentName, "spec.deploymentName", &examplev1alpha1.Foo{},
	},
	"VerticalScalerDeploymentName": {
		AddVerticalScalerDeploymentName, VerticalScalerDeploymentName, "spec.deploymentName", &autoscalingv1beta1.VerticalScaler{},
	},
	"DeploymentController": {
		AddDeploymentController, DeploymentController, "metadata.ownerReferences.controller", &appsv1.Deployment{},
	},
	"HorizontalPodAutoscalerDeploymentName": {
		AddHorizontalPodAutoscalerDeploymentName, HorizontalPodAutoscalerDeploymentName,
		"spec.scaleTargetRef.deployment", &autoscalingv2.HorizontalPodAutoscaler{},
	},
	"PodDeployment": {
		AddPodDeployment, PodDeployment, "metadata.ownerReferences.deployment", &corev1.Pod{},
	},
}

func TestAnIndexIsRegisteredForItsKindUnderItsField(t *testing.T) {
	t.Parallel()
	for name, index := range indexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			indexer := &fakeIndexer{}
			require.NoError(t, index.add(t.Context(), indexer))
			require.Len(t, indexer.registrations, 1)
			got := indexer.registrations[0]
			assert.Equal(t, index.field, got.field)
			assert.Equal(t, index.field, index.constant)
			assert.IsType(t, index.kind, got.obj)
			assert.NotNil(t, got.extract)
		})
	}
}

func TestAFailedRegistrationNamesTheIndexAndWrapsTheError(t *testing.T) {
	t.Parallel()
	conflict := errors.New("indexer conflict")
	for name, index := range indexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := index.add(t.Context(), &fakeIndexer{err: conflict})
			require.ErrorIs(t, err, conflict)
			assert.ErrorContains(t, err, "by "+index.field+": ")
		})
	}
}

func TestAnIndexExtracts(t *testing.T) {
	t.Parallel()
	named := metav1.ObjectMeta{Namespace: "one", Name: "a"}
	owned := func(references ...metav1.OwnerReference) client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", OwnerReferences: references}}
	}
	const hpas = "HorizontalPodAutoscalerDeploymentName"
	scaling := func(apiVersion, kind string) client.Object {
		return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: "web"},
		}}
	}
	for name, test := range map[string]struct {
		index  string
		obj    client.Object
		values []string
	}{
		"a Busybox's own name":             {"BusyboxName", &examplev1alpha1.Busybox{ObjectMeta: named}, []string{"a"}},
		"a Memcached's own name":           {"MemcachedName", &cachev1alpha1.Memcached{ObjectMeta: named}, []string{"a"}},
		"a Foo's Deployment":               {"FooDeploymentName", &examplev1alpha1.Foo{ObjectMeta: named, Spec: examplev1alpha1.FooSpec{DeploymentName: "web"}}, []string{"web"}},
		"nothing of a Foo without one":     {"FooDeploymentName", &examplev1alpha1.Foo{ObjectMeta: named}, nil},
		"nothing of another kind than Foo": {"FooDeploymentName", &corev1.Pod{ObjectMeta: named}, nil},
		"a scaler's Deployment":            {"VerticalScalerDeploymentName", &autoscalingv1beta1.VerticalScaler{ObjectMeta: named, Spec: autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"}}, []string{"web"}},
		"nothing of a scaler without one":  {"VerticalScalerDeploymentName", &autoscalingv1beta1.VerticalScaler{ObjectMeta: named}, nil},
		"nothing of what is no scaler":     {"VerticalScalerDeploymentName", &corev1.Pod{ObjectMeta: named}, nil},
		"the UID of a Deployment's controller among its owners": {"DeploymentController", owned(
			metav1.OwnerReference{Name: "owner", UID: "1"},
			metav1.OwnerReference{Name: "controller", UID: "2", Controller: new(true)},
		), []string{"2"}},
		"nothing of a Deployment with mere owners": {"DeploymentController", owned(
			metav1.OwnerReference{Name: "owner", UID: "1"},
			metav1.OwnerReference{Name: "other", UID: "2", Controller: new(false)},
		), nil},
		"nothing of a Deployment without owners":         {"DeploymentController", owned(), nil},
		"the Deployment that is scaled horizontally":     {hpas, scaling("apps/v1", "Deployment"), []string{"web"}},
		"it in another version":                          {hpas, scaling("apps/v1beta2", "Deployment"), []string{"web"}},
		"nothing of a StatefulSet's autoscaler":          {hpas, scaling("apps/v1", "StatefulSet"), nil},
		"nothing of another group's Deployment":          {hpas, scaling("example.com/v1", "Deployment"), nil},
		"nothing of a Deployment of no group":            {hpas, scaling("", "Deployment"), nil},
		"nothing of a Deployment in a version of no API": {hpas, scaling("a/b/c", "Deployment"), nil},
		"nothing of what is no autoscaler":               {hpas, &corev1.Pod{ObjectMeta: named}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			indexer := &fakeIndexer{}
			require.NoError(t, indexes[test.index].add(t.Context(), indexer))
			assert.Equal(t, test.values, indexer.registrations[0].extract(test.obj))
		})
	}
}
