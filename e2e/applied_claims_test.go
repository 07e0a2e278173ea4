package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// What is learned of one Deployment says nothing of another, nor does a scaler inherit anything
// from one of its name.
func TestScalersThatAreSwappedOrCreatedAnewNeverGiveThePodsOfOneDeploymentTheSizeOfAnother(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	uses := map[string]consumption{"little": {50, 300}, "much": {400, 600}}
	memory := map[string]string{}
	for name, used := range uses {
		deployment := newDeployment(namespace, name, 2)
		deployment.Spec.Template.Annotations = pairs(usageOf("other", used))
		deployment.Spec.Template.Spec.Containers[0].Resources = *charted.DeepCopy()
		create(t, deployment)
		memory[name] = memoryOf(targetOf(t, used, 1))
	}
	requested := watchMemory(t, namespace)
	newScalers := func() (a, b *autoscalingv1beta1.VerticalScaler) {
		a, b = newPromptScaler(namespace, "a"), newPromptScaler(namespace, "b")
		for scaler, target := range map[*autoscalingv1beta1.VerticalScaler]string{a: "little", b: "much"} {
			scaler.Spec.DeploymentName, scaler.Spec.ContainerPolicies = target, nil
			create(t, scaler)
		}
		return a, b
	}
	// Also those pods are right that are born while nobody knows what they will use.
	sizes := func(scaler *autoscalingv1beta1.VerticalScaler, target string) {
		t.Helper()
		deployment := deploymentOf(t, namespace, target)
		eventually(t, func(c *assert.CollectT) {
			requireCondition(c, refresh(c, scaler).Status.Conditions, "Applied", metav1.ConditionTrue, "Sized")
			require.Equal(c, target, scaler.Status.DeploymentName)
			require.Equal(c, memory[target], memoryOf(recommendationFor(c, scaler, "other").Target))
			for _, pod := range ownedPods(c, deployment) {
				require.Equal(c, memory[target], memoryOf(pod.Spec.Containers[0].Resources.Requests))
			}
		})
	}
	retarget := func(scaler *autoscalingv1beta1.VerticalScaler, target string) {
		t.Helper()
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = target })
	}
	a, b := newScalers()
	sizes(a, "little")
	sizes(b, "much")

	retarget(a, "much")
	retarget(b, "little")
	kubectl(t, namespace, "delete", "pods", "--all")
	sizes(a, "much")
	sizes(b, "little")

	remove(t, a)
	remove(t, b)
	a, b = newScalers()
	kubectl(t, namespace, "delete", "pods", "--all")
	sizes(a, "little")
	sizes(b, "much")

	for name, amounts := range requested() {
		assert.ElementsMatch(t, []string{memoryOf(charted.Requests), memory[name]}, amounts.UnsortedList(), name)
	}
}

// watchMemory watches the pods of a namespace and returns what ends that, and says how much
// memory those of each Deployment ever requested.
func watchMemory(t *testing.T, namespace string) func() map[string]sets.Set[string] {
	t.Helper()
	w := startWatch(t, &corev1.PodList{}, namespace)
	seen := make(chan map[string]sets.Set[string], 1)
	go func() {
		all := map[string]sets.Set[string]{}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				of := pod.Labels["app.kubernetes.io/instance"]
				all[of] = sets.New(memoryOf(pod.Spec.Containers[0].Resources.Requests)).Union(all[of])
			}
		}
		seen <- all
	}()
	return func() map[string]sets.Set[string] {
		w.Stop()
		return <-seen
	}
}
