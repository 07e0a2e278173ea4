package indexers

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// registration is a call of a field indexer.
type registration struct {
	obj     client.Object
	field   string
	extract client.IndexerFunc
}

// fakeIndexer records registrations. It returns err for the index of failing by field, and for no
// other.
type fakeIndexer struct {
	registrations []registration
	failing       client.Object
	field         string
	err           error
}

func (f *fakeIndexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	f.registrations = append(f.registrations, registration{obj, field, extract})
	if reflect.TypeOf(obj) == reflect.TypeOf(f.failing) && field == f.field {
		return f.err
	}
	return nil
}

// indexes are all indexes. A field is the literal that lookups name.
var indexes = map[string]struct {
	constant string
	field    string
	kind     client.Object
}{
	"FooDeploymentName":            {FooDeploymentName, "spec.deploymentName", &examplev1alpha1.Foo{}},
	"VerticalScalerDeploymentName": {VerticalScalerDeploymentName, "spec.deploymentName", &autoscalingv1beta1.VerticalScaler{}},
	"DeploymentController":         {DeploymentController, "metadata.ownerReferences.controller", &appsv1.Deployment{}},
	"HorizontalPodAutoscalerDeploymentName": {
		HorizontalPodAutoscalerDeploymentName, "spec.scaleTargetRef.deployment", &autoscalingv2.HorizontalPodAutoscaler{},
	},
	"PodDeployment":     {PodDeployment, "metadata.ownerReferences.deployment", &corev1.Pod{}},
	"PodControllerKind": {PodControllerKind, "metadata.ownerReferences.controllerKind", &corev1.Pod{}},
}

// registered returns what AddAll registers for the kind of an index.
func registered(t *testing.T, index string) registration {
	t.Helper()
	indexer := &fakeIndexer{}
	require.NoError(t, AddAll(t.Context(), indexer))
	i := slices.IndexFunc(indexer.registrations, func(r registration) bool {
		return reflect.TypeOf(r.obj) == reflect.TypeOf(indexes[index].kind) && r.field == indexes[index].field
	})
	require.NotEqual(t, -1, i, "no index for %T", indexes[index].kind)
	return indexer.registrations[i]
}

func TestAddAllRegistersEachIndexOnceForItsKindAndField(t *testing.T) {
	t.Parallel()
	indexer := &fakeIndexer{}
	require.NoError(t, AddAll(t.Context(), indexer))
	assert.Len(t, indexer.registrations, len(indexes))
	for name, index := range indexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := registered(t, name)
			assert.Equal(t, index.field, got.field)
			assert.Equal(t, index.field, index.constant)
			assert.NotNil(t, got.extract)
		})
	}
}

func TestAddAllNamesTheFailedIndexAndWrapsTheError(t *testing.T) {
	t.Parallel()
	conflict := errors.New("indexer conflict")
	for name, index := range indexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := AddAll(t.Context(), &fakeIndexer{failing: index.kind, field: index.field, err: conflict})
			require.ErrorIs(t, err, conflict)
			assert.ErrorContains(t, err, "by "+index.field+": ")
		})
	}
}

func TestIndexExtractsValues(t *testing.T) {
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
		"Foo":                              {"FooDeploymentName", &examplev1alpha1.Foo{ObjectMeta: named, Spec: examplev1alpha1.FooSpec{DeploymentName: "web"}}, []string{"web"}},
		"Foo without a Deployment":         {"FooDeploymentName", &examplev1alpha1.Foo{ObjectMeta: named}, nil},
		"another kind than Foo":            {"FooDeploymentName", &corev1.Pod{ObjectMeta: named}, nil},
		"scaler":                           {"VerticalScalerDeploymentName", &autoscalingv1beta1.VerticalScaler{ObjectMeta: named, Spec: autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"}}, []string{"web"}},
		"scaler without a Deployment":      {"VerticalScalerDeploymentName", &autoscalingv1beta1.VerticalScaler{ObjectMeta: named}, nil},
		"another kind than VerticalScaler": {"VerticalScalerDeploymentName", &corev1.Pod{ObjectMeta: named}, nil},
		"Deployment with a controller and another owner": {"DeploymentController", owned(
			metav1.OwnerReference{Name: "owner", UID: "1"},
			metav1.OwnerReference{Name: "controller", UID: "2", Controller: new(true)},
		), []string{"2"}},
		"Deployment with owners but no controller": {"DeploymentController", owned(
			metav1.OwnerReference{Name: "owner", UID: "1"},
			metav1.OwnerReference{Name: "other", UID: "2", Controller: new(false)},
		), nil},
		"Deployment without owners":                              {"DeploymentController", owned(), nil},
		"autoscaler of a Deployment":                             {hpas, scaling("apps/v1", "Deployment"), []string{"web"}},
		"autoscaler of a Deployment in another version":          {hpas, scaling("apps/v1beta2", "Deployment"), []string{"web"}},
		"autoscaler of a StatefulSet":                            {hpas, scaling("apps/v1", "StatefulSet"), nil},
		"autoscaler of a Deployment in another group":            {hpas, scaling("example.com/v1", "Deployment"), nil},
		"autoscaler of a Deployment without a group":             {hpas, scaling("", "Deployment"), nil},
		"autoscaler of a Deployment with an invalid API version": {hpas, scaling("a/b/c", "Deployment"), nil},
		"another kind than HorizontalPodAutoscaler":              {hpas, &corev1.Pod{ObjectMeta: named}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.values, registered(t, test.index).extract(test.obj))
		})
	}
}
