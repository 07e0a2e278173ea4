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

// Scalers swap their Deployments, and are then re-created under the same names. A scaler's history
// belongs to one Deployment and one UID.
func TestPodsNeverGetTheSizeOfAnotherDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	uses := map[string]consumption{"small": {50, 300}, "large": {400, 600}}
	memory := map[string]string{}
	for name, used := range uses {
		deployment := newDeployment(namespace, name, 2)
		deployment.Spec.Template.Annotations = pairs(usageOf("other", used))
		deployment.Spec.Template.Spec.Containers[0].Resources = *templateResources.DeepCopy()
		create(t, deployment)
		memory[name] = memoryOf(targetFor(t, used, 1))
	}
	requested := watchMemoryRequests(t, namespace)
	createScalers := func() (a, b *autoscalingv1beta1.VerticalScaler) {
		a, b = newImmediateScaler(namespace, "a"), newImmediateScaler(namespace, "b")
		for scaler, target := range map[*autoscalingv1beta1.VerticalScaler]string{a: "small", b: "large"} {
			scaler.Spec.DeploymentName, scaler.Spec.ContainerPolicies = target, nil
			create(t, scaler)
		}
		return a, b
	}
	waitForSize := func(scaler *autoscalingv1beta1.VerticalScaler, target string) {
		t.Helper()
		deployment := getDeployment(t, namespace, target)
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
	a, b := createScalers()
	waitForSize(a, "small")
	waitForSize(b, "large")

	retarget(a, "large")
	retarget(b, "small")
	kubectl(t, namespace, "delete", "pods", "--all") // The new pods start before there is a new recommendation.
	waitForSize(a, "large")
	waitForSize(b, "small")

	remove(t, a)
	remove(t, b)
	a, b = createScalers()
	kubectl(t, namespace, "delete", "pods", "--all")
	waitForSize(a, "small")
	waitForSize(b, "large")

	for name, amounts := range requested() {
		assert.ElementsMatch(t, []string{memoryOf(templateResources.Requests), memory[name]}, amounts.UnsortedList(), name)
	}
}

// watchMemoryRequests watches the pods of a namespace. The function that it returns ends the watch and
// returns all amounts of memory that the pods of each Deployment requested at any time.
func watchMemoryRequests(t *testing.T, namespace string) func() map[string]sets.Set[string] {
	t.Helper()
	w := startWatch(t, &corev1.PodList{}, namespace)
	seen := make(chan map[string]sets.Set[string], 1)
	go func() {
		all := map[string]sets.Set[string]{}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				deployment := pod.Labels["app.kubernetes.io/instance"]
				all[deployment] = sets.New(memoryOf(pod.Spec.Containers[0].Resources.Requests)).Union(all[deployment])
			}
		}
		seen <- all
	}()
	return func() map[string]sets.Set[string] {
		w.Stop()
		return <-seen
	}
}
