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
	"FooDeploymentName":             {FooDeploymentName, "spec.deploymentName", &examplev1alpha1.Foo{}},
	"VerticalScalerDeploymentName":  {VerticalScalerDeploymentName, "spec.deploymentName", &autoscalingv1beta1.VerticalScaler{}},
	"DeploymentController":          {DeploymentController, "metadata.ownerReferences.controller", &appsv1.Deployment{}},
	"HorizontalPodAutoscalerTarget": {HorizontalPodAutoscalerTarget, "spec.scaleTargetRef", &autoscalingv2.HorizontalPodAutoscaler{}},
	"DeploymentControllerTarget":    {DeploymentControllerTarget, "metadata.ownerReferences.scaleTarget", &metav1.PartialObjectMetadata{}},
	"PodDeployment":                 {PodDeployment, "metadata.ownerReferences.deployment", &corev1.Pod{}},
	"PodControllerKind":             {PodControllerKind, "metadata.ownerReferences.controllerKind", &corev1.Pod{}},
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
	const hpas, targets = "HorizontalPodAutoscalerTarget", "DeploymentControllerTarget"
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
		"autoscaler of a Deployment":                             {hpas, scaling("apps/v1", "Deployment"), []string{"Deployment.apps/web"}},
		"autoscaler of a Deployment in another version":          {hpas, scaling("apps/v1beta2", "Deployment"), []string{"Deployment.apps/web"}},
		"autoscaler of another kind":                             {hpas, scaling("example.com/v1", "Busybox"), []string{"Busybox.example.com/web"}},
		"autoscaler of a Deployment in another group":            {hpas, scaling("example.com/v1", "Deployment"), []string{"Deployment.example.com/web"}},
		"autoscaler of a kind in the core group":                 {hpas, scaling("v1", "ReplicationController"), []string{"ReplicationController/web"}},
		"autoscaler of a Deployment without a group":             {hpas, scaling("", "Deployment"), []string{"Deployment/web"}},
		"autoscaler of a Deployment with an invalid API version": {hpas, scaling("a/b/c", "Deployment"), nil},
		"autoscaler without a kind":                              {hpas, scaling("apps/v1", ""), nil},
		"another kind than HorizontalPodAutoscaler":              {hpas, &corev1.Pod{ObjectMeta: named}, nil},
		"Deployment that a Busybox controls": {targets, owned(
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner"},
			metav1.OwnerReference{APIVersion: "example.com/v1alpha1", Kind: "Busybox", Name: "web", Controller: new(true)},
		), []string{"Busybox.example.com/web"}},
		"Deployment with an owner but no controller": {targets, owned(
			metav1.OwnerReference{APIVersion: "example.com/v1alpha1", Kind: "Busybox", Name: "web"},
		), nil},
		"Deployment whose controller has an invalid API version": {targets, owned(
			metav1.OwnerReference{APIVersion: "a/b/c", Kind: "Busybox", Name: "web", Controller: new(true)},
		), nil},
		"Deployment without a controller": {targets, owned(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.values, registered(t, test.index).extract(test.obj))
		})
	}
}

func TestDeploymentIsScaledByItselfOrItsController(t *testing.T) {
	t.Parallel()
	d := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	assert.Equal(t, []string{"Deployment.apps/web"}, ScaleTargetsOfDeployment(d))
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1alpha1", Kind: "Busybox", Name: "box", Controller: new(true)}}
	assert.ElementsMatch(t, []string{"Deployment.apps/web", "Busybox.example.com/box"}, ScaleTargetsOfDeployment(d))
}

func TestScaleTargetOfADeploymentHasItsName(t *testing.T) {
	t.Parallel()
	name, is := DeploymentOfScaleTarget("Deployment.apps/web")
	assert.True(t, is)
	assert.Equal(t, "web", name)
	for _, other := range []string{"", "Busybox.example.com/web", "Deployment/web", "Deployment.example.com/web"} {
		_, is := DeploymentOfScaleTarget(other)
		assert.False(t, is, other)
	}
}
