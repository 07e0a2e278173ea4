package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPlanResizeIsBlockedByQoSClassOrNode(t *testing.T) {
	t.Parallel()
	burstable := container("app", list("100m", "128Mi"), list("200m", "128Mi"))
	guaranteed := container("app", list("100m", "128Mi"), list("100m", "128Mi"))
	size := list("50m", "64Mi")
	changes := map[string]func(*corev1.Pod){
		"pod-level resources": func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{} },
		"container not running": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State.Running, pod.Status.ContainerStatuses[0].Resources = nil, nil
		},
		"status without resources": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].Resources = nil
		},
	}
	for name, test := range map[string]struct {
		current corev1.Container
		change  string
		size    autoscalingv1beta1.ContainerSizing
		changes bool
		blocked string
	}{
		"Burstable": {current: burstable, size: sizeOf("app", size, list("100m", "64Mi")), changes: true},
		"Burstable that would become Guaranteed": {current: burstable, size: sizeOf("app", size, size), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"Guaranteed": {current: guaranteed, size: sizeOf("app", size, size), changes: true},
		"Guaranteed that would become Burstable": {current: guaranteed, size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"BestEffort": {current: container("app", nil, nil), size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"pod with pod-level resources": {current: burstable, change: "pod-level resources", size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonPodLevelResources},
		"container not running yet": {current: burstable, change: "container not running", size: sizeOf("app", size, nil), changes: true},
		"node without support for resize": {current: burstable, change: "status without resources", size: sizeOf("app", size, nil),
			changes: true, blocked: autoscalingv1beta1.ReasonResizeUnsupported},
		"no change": {current: burstable, size: sizeOf("app", list("100m", ""), nil)},
		"no change on a node without support for resize": {current: burstable, change: "status without resources", size: sizeOf("app", list("100m", ""), nil)},
		"request above the limit":                        {current: burstable, size: sizeOf("app", list("300m", ""), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.current)
			if change := changes[test.change]; change != nil {
				change(pod)
			}
			plan := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{test.size})
			assert.Equal(t, test.changes, len(plan.Containers) > 0)
			assert.Equal(t, test.blocked, plan.Blocked)
			assert.False(t, plan.Restarts)
		})
	}
}

func TestPlanResizeRestartsContainerIfResizePolicyRequiresIt(t *testing.T) {
	t.Parallel()
	cpu, memory := list("50m", ""), list("", "64Mi")
	for name, test := range map[string]struct {
		resource corev1.ResourceName
		policy   corev1.ResourceResizeRestartPolicy
		size     autoscalingv1beta1.ContainerSizing
		restarts bool
	}{
		"memory restarts and memory changes":                  {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", memory, nil), true},
		"memory restarts and its limit changes":               {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", nil, list("", "1Gi")), true},
		"memory restarts and CPU changes":                     {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", cpu, nil), false},
		"CPU restarts and CPU changes":                        {corev1.ResourceCPU, corev1.RestartContainer, sizeOf("app", cpu, nil), true},
		"memory does not restart and memory changes":          {corev1.ResourceMemory, corev1.NotRequired, sizeOf("app", memory, nil), false},
		"memory restarts in a container that does not change": {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("web", memory, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
			app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: test.resource, RestartPolicy: test.policy}}
			sizes := []autoscalingv1beta1.ContainerSizing{test.size}

			plan := PlanResize(podOf(app, container("web", list("100m", "128Mi"), nil)), sizes)
			assert.Len(t, plan.Containers, 1)
			assert.Equal(t, test.restarts, plan.Restarts)

			plan = PlanResize(withSidecar(podOf(container("web", list("100m", "128Mi"), nil)), app), sizes)
			assert.Equal(t, test.restarts, plan.Restarts, "as a sidecar")
			assert.Empty(t, plan.Blocked, "as a sidecar")
		})
	}
}

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

func TestResizingIgnoresContainersWithoutResourcesInStatus(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", ""), nil), container("web", list("100m", ""), nil))
	pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
	pod.Status.ContainerStatuses[0].Resources = nil
	reason, _ := Resizing(pod)
	assert.Empty(t, reason)
}

func TestPlanResizeDoesNotRestartContainerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), nil)
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	pod, size := podOf(app), []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("50m", ""), nil)}
	assert.True(t, PlanResize(pod, size).Restarts)
	pod.Status.ContainerStatuses = nil
	assert.False(t, PlanResize(pod, size).Restarts)
}
