package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestResizingReturnsStateFromKubelet(t *testing.T) {
	t.Parallel()
	conditions := func(all ...corev1.PodCondition) []corev1.PodCondition { return all }
	condition := func(kind corev1.PodConditionType, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "why"}
	}
	ended := condition(corev1.PodResizePending, corev1.PodReasonInfeasible)
	ended.Status = corev1.ConditionFalse
	ready := condition(corev1.PodReady, "")
	otherAmounts := list("50m", "64Mi")
	for name, test := range map[string]struct {
		conditions []corev1.PodCondition
		actual     corev1.ResourceList // In the container's status. Nil means as in the spec.
		want       string
		message    string
	}{
		"no resize":                              {conditions(ready), nil, "", ""},
		"deferred":                               {conditions(ready, condition(corev1.PodResizePending, corev1.PodReasonDeferred)), nil, autoscalingv1beta1.ReasonResizeDeferred, "why"},
		"infeasible":                             {conditions(condition(corev1.PodResizePending, corev1.PodReasonInfeasible)), otherAmounts, autoscalingv1beta1.ReasonResizeInfeasible, "why"},
		"in progress":                            {conditions(condition(corev1.PodResizeInProgress, "")), nil, autoscalingv1beta1.ReasonResizing, "why"},
		"failed":                                 {conditions(condition(corev1.PodResizeInProgress, corev1.PodReasonError)), nil, autoscalingv1beta1.ReasonResizeFailed, "why"},
		"ended":                                  {conditions(ended), nil, "", ""},
		"not yet seen by the kubelet":            {conditions(ready), otherAmounts, autoscalingv1beta1.ReasonResizing, ""},
		"ended, but another one is not yet seen": {conditions(ended), otherAmounts, autoscalingv1beta1.ReasonResizing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := container("app", list("100m", "128Mi"), nil)
			for kind, pod := range map[string]*corev1.Pod{
				"container": podOf(app), "sidecar": withSidecar(podOf(container("web", nil, nil)), app),
			} {
				pod.Status.Conditions = test.conditions
				for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
					if len(statuses) > 0 && statuses[0].Name == "app" && test.actual != nil {
						statuses[0].Resources.Requests = test.actual
					}
				}
				reason, message := Resizing(pod)
				assert.Equal(t, test.want, reason, kind)
				assert.Equal(t, test.message, message, kind)
			}
		})
	}
}

func TestResizingBelievesOnlyConditionsOfTheLastResize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		condition, status, generation int64
		want                          string
	}{
		"the last resize":                      {3, 3, 3, autoscalingv1beta1.ReasonResizeFailed},
		"an earlier resize":                    {2, 2, 3, autoscalingv1beta1.ReasonResizing},
		"an earlier generation, still true":    {2, 3, 3, autoscalingv1beta1.ReasonResizeFailed},
		"a kubelet that reports no generation": {0, 0, 3, autoscalingv1beta1.ReasonResizeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(container("app", list("100m", "128Mi"), nil))
			pod.Generation, pod.Status.ObservedGeneration = test.generation, test.status
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, ObservedGeneration: test.condition,
			}}
			pod.Status.ContainerStatuses[0].Resources.Requests = list("50m", "64Mi")
			reason, _ := Resizing(pod)
			assert.Equal(t, test.want, reason)
		})
	}
}

func TestResizingClaimsNothingThatTheStatusDoesNotReport(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
	for name, test := range map[string]struct {
		change func(*corev1.ContainerStatus)
		want   string
	}{
		"in force":       {func(*corev1.ContainerStatus) {}, ""},
		"other limit":    {func(s *corev1.ContainerStatus) { s.Resources.Limits = list("200m", "128Mi") }, autoscalingv1beta1.ReasonResizing},
		"no resources":   {func(s *corev1.ContainerStatus) { s.Resources = nil }, autoscalingv1beta1.ReasonResourcesNotReported},
		"crash-looping":  {func(s *corev1.ContainerStatus) { s.State.Running = nil }, autoscalingv1beta1.ReasonPodsNotRunning},
		"another status": {func(s *corev1.ContainerStatus) { s.Name = "other" }, autoscalingv1beta1.ReasonPodsNotRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, pod := range map[string]*corev1.Pod{
				"container": podOf(container("web", nil, nil), app), "sidecar": withSidecar(podOf(container("web", nil, nil)), app),
			} {
				pod.Status.Phase = corev1.PodRunning
				status := statusOf(pod, "app")
				test.change(status)
				reason, message := Resizing(pod)
				assert.Equal(t, test.want, reason, kind)
				assert.Empty(t, message, kind)
			}
		})
	}
}

func TestContainerThatEndsDoesNotCountAsStopped(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", ""), nil), container("job", list("100m", ""), nil))
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
	pod.Spec.InitContainers = []corev1.Container{container("init", nil, nil)}
	pod.Status.ContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	reason, _ := Resizing(pod)
	assert.Empty(t, reason)
}

// TestKubeletsMessageIsStable shows the messages of kubelets 1.36 at two retries.
func TestKubeletsMessageIsStable(t *testing.T) {
	t.Parallel()
	for first, second := range map[string]string{
		"cannot decrease memory limits: [attempting to set pod memory limit (67108864) below current usage (90112000),\n attempting to set container \"web-2\" memory limit (67108864) below current usage (90112000)]": "cannot decrease memory limits: [attempting to set pod memory limit (67108864) below current usage (91234304),\n attempting to set container \"web-2\" memory limit (67108864) below current usage (91234304)]",
		"Node didn't have enough resource: cpu, requested: 4000, used: 1500, capacity: 2000":                                                                                                                            "Node didn't have enough resource: cpu, requested: 4000, used: 900, capacity: 2000",
		"it uses 12Mi of 3.5Gi": "it uses 13Mi of 3.5Gi",
	} {
		assert.Equal(t, stableText(first), stableText(second))
		assert.NotContains(t, stableText(first), "\n")
	}
	assert.Equal(t, `container "web-2": limit (…) in pod web-5d8f-1, see v1.36`, stableText("container \"web-2\":\n\tlimit (128) in pod web-5d8f-1, see v1.36"))
}

func TestIsRestartingIsTrueWhileAResizeRestartsAContainer(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), nil)
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	deferred := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}
	for name, test := range map[string]struct {
		inForce    corev1.ResourceList
		conditions []corev1.PodCondition
		want       bool
	}{
		"no resize":              {list("100m", "128Mi"), nil, false},
		"resource that restarts": {list("100m", "64Mi"), nil, true},
		"resource that does not": {list("50m", "128Mi"), nil, false},
		"deferred":               {list("100m", "64Mi"), []corev1.PodCondition{deferred}, false},
		"no resources in force":  {nil, nil, false},
	} {
		pod := podOf(app)
		pod.Status.Conditions = test.conditions
		if pod.Status.ContainerStatuses[0].Resources.Requests = test.inForce; test.inForce == nil {
			pod.Status.ContainerStatuses[0].Resources = nil
		}
		assert.Equal(t, test.want, IsRestarting(pod), name)
	}
}
