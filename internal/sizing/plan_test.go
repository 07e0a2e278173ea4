package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestAPodIsResizedInPlaceWhereItsClassAndItsNodeAllowIt(t *testing.T) {
	t.Parallel()
	burstable := container("app", list("100m", "128Mi"), list("200m", "128Mi"))
	guaranteed := container("app", list("100m", "128Mi"), list("100m", "128Mi"))
	aSize := list("50m", "64Mi")
	pods := map[string]func(*corev1.Pod){
		"as a whole": func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{} },
		"not running": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State.Running, pod.Status.ContainerStatuses[0].Resources = nil, nil
		},
		"no resources in the status": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].Resources = nil
		},
	}
	for name, test := range map[string]struct {
		has     corev1.Container
		change  string
		size    autoscalingv1beta1.ContainerSizing
		changes bool
		blocked string
	}{
		"Burstable": {has: burstable, size: sizeOf("app", aSize, list("100m", "64Mi")), changes: true},
		"Burstable that would become fully equal": {has: burstable, size: sizeOf("app", aSize, aSize), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"Guaranteed": {has: guaranteed, size: sizeOf("app", aSize, aSize), changes: true},
		"Guaranteed that would no longer be equal": {has: guaranteed, size: sizeOf("app", aSize, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"BestEffort": {has: container("app", nil, nil), size: sizeOf("app", aSize, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"with a size as a whole": {has: burstable, change: "as a whole", size: sizeOf("app", aSize, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonPodLevelResources},
		"whose container does not run yet": {has: burstable, change: "not running", size: sizeOf("app", aSize, nil), changes: true},
		"whose node says nothing of its resources": {has: burstable, change: "no resources in the status", size: sizeOf("app", aSize, nil),
			changes: true, blocked: autoscalingv1beta1.ReasonResizeUnsupported},
		"that has its size already":                        {has: burstable, size: sizeOf("app", list("100m", ""), nil)},
		"that has its size already and cannot get another": {has: burstable, change: "no resources in the status", size: sizeOf("app", list("100m", ""), nil)},
		"whose size does not fit":                          {has: burstable, size: sizeOf("app", list("300m", ""), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.has)
			if change := pods[test.change]; change != nil {
				change(pod)
			}
			plan := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{test.size})
			assert.Equal(t, test.changes, len(plan.Containers) > 0)
			assert.Equal(t, test.blocked, plan.Blocked)
			assert.False(t, plan.Restarts)
		})
	}
}

func TestAContainerIsRestartedWhereItsPolicySaysSoOfAResourceThatChanges(t *testing.T) {
	t.Parallel()
	cpu, memory := list("50m", ""), list("", "64Mi")
	for name, test := range map[string]struct {
		resource corev1.ResourceName
		policy   corev1.ResourceResizeRestartPolicy
		size     autoscalingv1beta1.ContainerSizing
		restarts bool
	}{
		"of memory, which changes":              {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", memory, nil), true},
		"of memory, of which the limit changes": {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", nil, list("", "1Gi")), true},
		"of memory, while CPU changes":          {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", cpu, nil), false},
		"of CPU, which changes":                 {corev1.ResourceCPU, corev1.RestartContainer, sizeOf("app", cpu, nil), true},
		"not of memory, which changes":          {corev1.ResourceMemory, corev1.NotRequired, sizeOf("app", memory, nil), false},
		"of another container, which stays":     {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("web", memory, nil), false},
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

func TestTheStateOfAResizeIsWhatTheKubeletSays(t *testing.T) {
	t.Parallel()
	conditions := func(all ...corev1.PodCondition) []corev1.PodCondition { return all }
	condition := func(kind corev1.PodConditionType, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "because"}
	}
	over := condition(corev1.PodResizePending, corev1.PodReasonInfeasible)
	over.Status = corev1.ConditionFalse
	ready := condition(corev1.PodReady, "")
	another := list("50m", "64Mi")
	for name, test := range map[string]struct {
		conditions []corev1.PodCondition
		has        corev1.ResourceList // Another than the spec says, where it is not nil.
		want       string
		message    string
	}{
		"none":             {conditions(ready), nil, "", ""},
		"deferred":         {conditions(ready, condition(corev1.PodResizePending, corev1.PodReasonDeferred)), nil, autoscalingv1beta1.ReasonResizeDeferred, "because"},
		"infeasible":       {conditions(condition(corev1.PodResizePending, corev1.PodReasonInfeasible)), another, autoscalingv1beta1.ReasonResizeInfeasible, "because"},
		"in progress":      {conditions(condition(corev1.PodResizeInProgress, "")), nil, autoscalingv1beta1.ReasonResizing, "because"},
		"failed":           {conditions(condition(corev1.PodResizeInProgress, corev1.PodReasonError)), nil, autoscalingv1beta1.ReasonResizeFailed, "because"},
		"over":             {conditions(over), nil, "", ""},
		"not said of yet":  {conditions(ready), another, autoscalingv1beta1.ReasonResizing, ""},
		"over and another": {conditions(over), another, autoscalingv1beta1.ReasonResizing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := container("app", list("100m", "128Mi"), nil)
			for kind, pod := range map[string]*corev1.Pod{
				"container": podOf(asked), "sidecar": withSidecar(podOf(container("web", nil, nil)), asked),
			} {
				pod.Status.Conditions = test.conditions
				for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
					if len(statuses) > 0 && statuses[0].Name == "app" && test.has != nil {
						statuses[0].Resources.Requests = test.has
					}
				}
				reason, message := Resizing(pod)
				assert.Equal(t, test.want, reason, kind)
				assert.Equal(t, test.message, message, kind)
			}
		})
	}
}

func TestAPodOfWhichTheNodeSaysNothingIsNotBeingResized(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", ""), nil), container("web", list("100m", ""), nil))
	pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
	pod.Status.ContainerStatuses[0].Resources = nil
	reason, _ := Resizing(pod)
	assert.Empty(t, reason)
}

func TestAContainerThatDoesNotRunIsNotRestarted(t *testing.T) {
	t.Parallel()
	has := container("app", list("100m", "128Mi"), nil)
	has.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	pod, size := podOf(has), []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("50m", ""), nil)}
	assert.True(t, PlanResize(pod, size).Restarts)
	pod.Status.ContainerStatuses = nil
	assert.False(t, PlanResize(pod, size).Restarts)
}
