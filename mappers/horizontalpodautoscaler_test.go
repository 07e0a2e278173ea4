package mappers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
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

func TestHPAOfAnotherKindTriggersNoLookup(t *testing.T) {
	t.Parallel()
	reader := &flakyReader{Reader: indexedReader(t, population()...)}
	mapper, q := newMappers(t, reader).HorizontalPodAutoscalerToVerticalScalers(), newQueue(t)
	hpa := newHPA("one", "web")
	hpa.Spec.ScaleTargetRef.Kind = "StatefulSet"
	mapper.Create(t.Context(), event.CreateEvent{Object: hpa}, q)
	assert.Empty(t, drain(q))
	assert.Zero(t, reader.lookups(types.NamespacedName{Namespace: "one"}))
}
