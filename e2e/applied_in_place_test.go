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
		// A node cannot lower memory that is in use. No rollout is needed.
		"Error": {"ResizeFailed", recommendedResources, templateResources, autoscalingv1beta1.UpdateModeInPlaceOrRollout},
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
