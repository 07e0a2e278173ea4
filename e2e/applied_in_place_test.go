package e2e_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestInPlaceResizeRestartsNothingAndLeavesDeploymentUnchanged(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newWebDeployment(namespace, 3, "Granted"))
	waitForResources(t, deployment, templateResources, 3)
	waitForSettled(t, deployment)
	before, running := workloadVersions(t, namespace), listPods(t, namespace)

	scaler := create(t, newImmediateScaler(namespace, "web"))

	waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
	after, resized := workloadVersions(t, namespace), listPods(t, namespace)
	requireResources(t, recommendedResources, resized)
	startTimes := func(pods []corev1.Pod) map[string]metav1.Time {
		all := map[string]metav1.Time{}
		for i := range pods {
			all[string(pods[i].UID)] = pods[i].Status.ContainerStatuses[0].State.Running.StartedAt
		}
		return all
	}
	assert.Equal(t, startTimes(running), startTimes(resized), "pods and when their containers started")
	isPod := func(key, _ string) bool { return strings.HasPrefix(key, "Pod ") }
	maps.DeleteFunc(before, isPod)
	maps.DeleteFunc(after, isPod)
	assert.Equal(t, before, after, "UID and resource version of the Deployment and its ReplicaSet")
	assert.Equal(t, 3, countScalerWrites(t, namespace, "pods/resize"), "one write for each pod")
}

func TestAppliedReportsTheNodesAnswerToAResize(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct {
		reason    string
		has, want corev1.ResourceRequirements
		mode      autoscalingv1beta1.UpdateMode
	}{
		"Deferred":   {"ResizeDeferred", templateResources, recommendedResources, autoscalingv1beta1.UpdateModeInPlace},
		"Infeasible": {"ResizeInfeasible", templateResources, recommendedResources, autoscalingv1beta1.UpdateModeInPlace},
		// The kubelet retries. No rollout is needed.
		"Error": {"ResizeFailed", templateResources, recommendedResources, autoscalingv1beta1.UpdateModeInPlaceOrRollout},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := newWebDeployment(namespace, 2, answer)
			deployment.Spec.Template.Spec.Containers[0].Resources = *c.has.DeepCopy()
			create(t, deployment)
			waitForSettled(t, deployment)
			running := listPods(t, namespace)
			scaler := newImmediateScaler(namespace, "web")
			scaler.Spec.UpdateMode = c.mode
			recommendFixed(scaler, c.want.Requests)

			create(t, scaler)

			waitForApplied(t, scaler, metav1.ConditionFalse, c.reason)
			eventually(t, func(c *assert.CollectT) {
				message := conditionMessage(refresh(c, scaler), "Applied")
				require.Contains(c, message, "web-", "the name of a pod")
				require.Contains(c, message, resizeMessage(c, &listPods(c, namespace)[0]))
			})
			requireResources(t, c.want, listPods(t, namespace))
			for i := range running {
				edit(t, &running[i], func(p *corev1.Pod) { delete(p.Annotations, annotationResize) })
			}
			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
			assert.Equal(t, names(running), names(listPods(t, namespace)))
			assert.Equal(t, 2, countScalerWrites(t, namespace, "pods/resize"), "one write for each pod")
			assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
		})
	}
}

// TestMemoryThatANodeCannotLowerIsPutBack shows that no rollout is needed, and that a new spec is
// tried at once.
func TestMemoryThatANodeCannotLowerIsPutBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := newWebDeployment(namespace, 2, "Error")
	deployment.Spec.Template.Spec.Containers[0].Resources = *recommendedResources.DeepCopy()
	create(t, deployment)
	waitForSettled(t, deployment)
	running := listPods(t, namespace)
	scaler := newImmediateScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout
	lowered := resourcesOf("300m", "128Mi", "600m", "256Mi")
	recommendFixed(scaler, lowered.Requests)

	create(t, scaler)

	waitForApplied(t, scaler, metav1.ConditionFalse, "MemoryInUse")
	eventually(t, func(c *assert.CollectT) {
		requireResources(c, recommendedResources, listPods(c, namespace))
		require.Contains(c, conditionMessage(refresh(c, scaler), "Applied"), "2 of 2 pods")
	})
	assert.Equal(t, 4, countScalerWrites(t, namespace, "pods/resize"), "one write to lower and one to put back for each pod")
	for i := range running {
		edit(t, &running[i], func(p *corev1.Pod) { delete(p.Annotations, annotationResize) })
	}
	lowered = resourcesOf("300m", "192Mi", "600m", "384Mi")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { recommendFixed(s, lowered.Requests) })
	waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
	requireResources(t, lowered, listPods(t, namespace))
	assert.Equal(t, names(running), names(listPods(t, namespace)))
	assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
}

// resizeMessage returns the message of the condition in which a pod's node answers a resize.
func resizeMessage(t require.TestingT, pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodResizePending || condition.Type == corev1.PodResizeInProgress {
			require.NotEmpty(t, condition.Message)
			return condition.Message
		}
	}
	require.Fail(t, "no answer to the resize")
	return ""
}
