package mappers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// newPod returns a pod that belongs to a Deployment.
func newPod(namespace, deployment string) *corev1.Pod {
	const hash = "5d89bdfd"
	pod := &corev1.Pod{ObjectMeta: named(namespace, deployment+"-"+hash+"-x2v4z")}
	pod.Labels = map[string]string{"pod-template-hash": hash}
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-" + hash, Controller: new(true),
	}}
	return pod
}

func TestPodMapsToScalersOfItsDeployment(t *testing.T) {
	t.Parallel()
	reader := indexedReader(t, append(population(), newScaler("one", "scaler-d", "web-api"))...)
	mapper, q := newMappers(t, reader).PodToVerticalScalers(), newQueue(t)
	for pod, want := range map[*corev1.Pod][]string{
		newPod("one", "web"):     {"one/scaler-a", "one/scaler-b"},
		newPod("one", "web-api"): {"one/scaler-d"},
		newPod("two", "web"):     {"two/scaler-c"},
		newPod("one", "unused"):  nil,
		newPod("three", "web"):   nil,
	} {
		mapper.Create(t.Context(), event.CreateEvent{Object: pod}, q)
		assert.ElementsMatch(t, want, drain(q), "create %s/%s", pod.Namespace, pod.Name)
		mapper.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q)
		assert.ElementsMatch(t, want, drain(q), "update %s/%s", pod.Namespace, pod.Name)
		mapper.Delete(t.Context(), event.DeleteEvent{Object: pod}, q)
		assert.ElementsMatch(t, want, drain(q), "delete %s/%s", pod.Namespace, pod.Name)
	}
}

func TestPodThatLeavesItsDeploymentMapsToScalersOfThatDeployment(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).PodToVerticalScalers(), newQueue(t)
	released := newPod("two", "web")
	released.OwnerReferences = nil
	mapper.Update(t.Context(), event.UpdateEvent{ObjectOld: newPod("two", "web"), ObjectNew: released}, q)
	assert.Equal(t, []string{"two/scaler-c"}, drain(q))
}

func TestPodWithoutDeploymentTriggersNoLookup(t *testing.T) {
	t.Parallel()
	reader := &flakyReader{Reader: indexedReader(t, append(population(), newScaler("one", "unnamed", ""))...)}
	mapper, q := newMappers(t, reader).PodToVerticalScalers(), newQueue(t)
	mapper.Create(t.Context(), event.CreateEvent{Object: &corev1.Pod{ObjectMeta: named("one", "web")}}, q)
	assert.Empty(t, drain(q))
	assert.Zero(t, reader.lookups(types.NamespacedName{Namespace: "one"}))
}
