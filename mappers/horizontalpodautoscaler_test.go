package mappers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// newHPA returns a HorizontalPodAutoscaler that scales a Deployment.
func newHPA(namespace, deployment string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named(namespace, "hpa"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
	}}
}

func TestHPAMapsToScalersOfItsDeployment(t *testing.T) {
	t.Parallel()
	reader := indexedReader(t, population()...)
	mapper, q := newMappers(t, reader).HorizontalPodAutoscalerToVerticalScalers(), newQueue(t)
	for hpa, want := range map[*autoscalingv2.HorizontalPodAutoscaler][]string{
		newHPA("one", "web"):    {"one/scaler-a", "one/scaler-b"},
		newHPA("two", "web"):    {"two/scaler-c"},
		newHPA("one", "unused"): nil,
		newHPA("three", "web"):  nil,
	} {
		mapper.Create(t.Context(), event.CreateEvent{Object: hpa}, q)
		assert.ElementsMatch(t, want, drain(q), "create %s/%s", hpa.Namespace, hpa.Spec.ScaleTargetRef.Name)
		mapper.Delete(t.Context(), event.DeleteEvent{Object: hpa}, q)
		assert.ElementsMatch(t, want, drain(q), "delete %s/%s", hpa.Namespace, hpa.Spec.ScaleTargetRef.Name)
	}
}

func TestHPAWithNewTargetMapsToScalersOfBothTargets(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).HorizontalPodAutoscalerToVerticalScalers(), newQueue(t)
	mapper.Update(t.Context(), event.UpdateEvent{ObjectOld: newHPA("one", "web"), ObjectNew: newHPA("one", "other")}, q)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b", "one/web"}, drain(q))
}

// newControlled returns the metadata of a Deployment that an object controls.
func newControlled(namespace, name, apiVersion, kind, controller string) *appsv1.Deployment {
	d := newDeployment(namespace, name)
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: controller, UID: "1", Controller: new(true)}}
	return d
}

func TestHPAOfAControllerMapsToScalersOfItsDeployments(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, append(population(),
		newControlled("one", "web", "example.com/v1alpha1", "Busybox", "box"),
		newControlled("one", "other", "example.com/v1alpha1", "Busybox", "box"),
		newControlled("two", "web", "example.com/v1alpha1", "Memcached", "box"),
		newDeployment("three", "web"),
	)...)).HorizontalPodAutoscalerToVerticalScalers(), newQueue(t)
	scaling := func(namespace, apiVersion, kind, name string) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := newHPA(namespace, name)
		hpa.Spec.ScaleTargetRef.APIVersion, hpa.Spec.ScaleTargetRef.Kind = apiVersion, kind
		return hpa
	}
	for hpa, want := range map[*autoscalingv2.HorizontalPodAutoscaler][]string{
		scaling("one", "example.com/v1alpha1", "Busybox", "box"): {"one/scaler-a", "one/scaler-b", "one/web"},
		scaling("one", "example.com/v2", "Busybox", "box"):       {"one/scaler-a", "one/scaler-b", "one/web"},
		scaling("one", "other.com/v1", "Busybox", "box"):         nil,
		scaling("one", "example.com/v1alpha1", "Busybox", "web"): nil,
		scaling("two", "example.com/v1alpha1", "Busybox", "box"): nil,
		scaling("one", "apps/v1", "StatefulSet", "web"):          nil,
	} {
		mapper.Create(t.Context(), event.CreateEvent{Object: hpa}, q)
		assert.ElementsMatch(t, want, drain(q), "%s %v", hpa.Namespace, hpa.Spec.ScaleTargetRef)
	}
}

func TestHPAWithAnInvalidTargetTriggersNoLookup(t *testing.T) {
	t.Parallel()
	reader := &flakyReader{Reader: indexedReader(t, population()...)}
	mapper, q := newMappers(t, reader).HorizontalPodAutoscalerToVerticalScalers(), newQueue(t)
	hpa := newHPA("one", "web")
	hpa.Spec.ScaleTargetRef.APIVersion = "a/b/c"
	mapper.Create(t.Context(), event.CreateEvent{Object: hpa}, q)
	assert.Empty(t, drain(q))
	assert.Zero(t, reader.lookups(types.NamespacedName{Namespace: "one"}))
}
