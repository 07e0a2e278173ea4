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

func TestRunningPodsAreResizedInPlaceAndTheirDeploymentIsNotTouched(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 3, "Granted"))
	runsResources(t, deployment, charted, 3)
	settles(t, deployment)
	before, running := workloads(t, namespace), podsIn(t, namespace)

	scaler := create(t, newPromptScaler(namespace, "web"))

	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	after, resized := workloads(t, namespace), podsIn(t, namespace)
	requireResources(t, sized, resized)
	started := func(pods []corev1.Pod) map[string]metav1.Time {
		all := map[string]metav1.Time{}
		for i := range pods {
			all[string(pods[i].UID)] = pods[i].Status.ContainerStatuses[0].State.Running.StartedAt
		}
		return all
	}
	assert.Equal(t, started(running), started(resized), "the same containers of the same pods")
	isPod := func(what, _ string) bool { return strings.HasPrefix(what, "Pod ") }
	maps.DeleteFunc(before, isPod)
	maps.DeleteFunc(after, isPod)
	assert.Equal(t, before, after, "the Deployment and its ReplicaSet, each with its resource version")
	assert.Equal(t, 3, writtenForScalers(t, namespace, "pods/resize"), "one write for each pod")
}

func TestDeletedScalerLeavesRunningPodsAsTheyAreAndNewOnesAreBornAsTheirTemplateSays(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 2, "Granted"))
	scaler := create(t, newPromptScaler(namespace, "web"))
	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	runsResources(t, deployment, sized, 2)
	settles(t, deployment)
	before := workloads(t, namespace)

	remove(t, scaler)

	gone(t, scaler)
	garbageIsCollected(t, namespace)
	assert.Equal(t, before, workloads(t, namespace), "each with its UID and its resource version")
	kubectl(t, namespace, "delete", "pods", "--all")
	runsResources(t, deployment, charted, 2)
}

func TestScalerTellsWhatTheNodesMakeOfAResizeAndAsksOnce(t *testing.T) {
	t.Parallel()
	for answer, reason := range map[string]string{
		"Deferred": "ResizeDeferred", "Infeasible": "ResizeInfeasible", "Error": "ResizeFailed",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := create(t, newChartedDeployment(namespace, 2, answer))
			settles(t, deployment)
			scaler := newPromptScaler(namespace, "web")
			scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace
			create(t, scaler)

			becomesApplied(t, scaler, metav1.ConditionFalse, reason)

			pods := podsIn(t, namespace)
			require.Len(t, pods, 2)
			eventually(t, func(c *assert.CollectT) {
				message := conditionMessage(refresh(c, scaler), "Applied")
				require.Regexp(c, `^2 of 2 pods .*\(pod web-[a-z0-9-]+: An annotation of the pod says so\.\)\.$`, message)
			})
			for i := range pods {
				edit(t, &pods[i], func(p *corev1.Pod) { delete(p.Annotations, resizeAnswer) })
			}
			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			assert.Equal(t, names(pods), names(podsIn(t, namespace)))
			assert.Equal(t, 2, writtenForScalers(t, namespace, "pods/resize"), "each pod was asked for once")
			assert.Zero(t, writtenForScalers(t, namespace, "deployments"))
		})
	}
}
