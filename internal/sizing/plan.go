package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Plan describes the in-place resize of a pod.
type Plan struct {
	// Containers are the containers that change, with their new resources. It is empty if the
	// pod needs no resize.
	Containers []corev1.Container
	// Blocked is a reason of the Applied condition if the pod cannot be resized in place.
	Blocked string
}

// PlanResize plans how a running pod gets the sizes that are due.
func PlanResize(pod *corev1.Pod, due []autoscalingv1beta1.ContainerSizing) Plan {
	if len(due) == 0 {
		return Plan{}
	}
	plan := planOf(pod, resized(pod, due))
	if len(plan.Containers) == 0 && isLimitTooLow(pod, due) {
		plan.Blocked = autoscalingv1beta1.ReasonLimitTooLow
	}
	return plan
}

// PlanRaise plans how a running pod gets what the sizes that are due raise.
func PlanRaise(pod *corev1.Pod, due []autoscalingv1beta1.ContainerSizing) Plan {
	raised := cloneSizes(due)
	for i := range raised {
		container := containerOf(&pod.Spec, raised[i].ContainerName)
		for _, r := range sizedResources {
			if r.amountIn(raised[i].Requests) <= r.amountIn(container.Resources.Requests) {
				delete(raised[i].Requests, r.name)
			}
			if limit, isLimited := container.Resources.Limits[r.name]; !isLimited || r.amountIn(raised[i].Limits) <= r.amountOf(&limit) {
				delete(raised[i].Limits, r.name)
			}
		}
	}
	return PlanResize(pod, raised)
}

// planOf returns the plan for containers of a pod that get other resources.
func planOf(pod *corev1.Pod, changed []corev1.Container) Plan {
	plan := Plan{Containers: withoutStoppedMemory(pod, changed)}
	if len(plan.Containers) == 0 {
		return plan
	}
	switch {
	case pod.Spec.Resources != nil:
		plan.Blocked = autoscalingv1beta1.ReasonPodLevelResources
	case !supportsResize(pod):
		plan.Blocked = autoscalingv1beta1.ReasonResizeUnsupported
	case pod.Status.QOSClass == corev1.PodQOSBestEffort, !keepsQoSClass(pod, plan.Containers):
		plan.Blocked = autoscalingv1beta1.ReasonQoSClassFixed
	}
	return plan
}

// withoutStoppedMemory returns changed containers without the memory of those that are down. The
// kubelet would report the new memory and not put it in force: the pod's cgroup keeps the old
// limit (https://github.com/kubernetes/kubernetes/issues/138760).
func withoutStoppedMemory(pod *corev1.Pod, changed []corev1.Container) []corev1.Container {
	if pod.Status.Phase != corev1.PodRunning {
		return changed
	}
	var kept []corev1.Container
	for _, container := range changed {
		current := containerOf(&pod.Spec, container.Name)
		if !isRunning(statusOf(pod, container.Name)) {
			container.Resources = memory.with(container.Resources, memory.rawPairIn(current.Resources))
		}
		if !isEqual(container.Resources, current.Resources) {
			kept = append(kept, container)
		}
	}
	return kept
}

// supportsResize reports whether the API server accepts a resize of the pod. Of the statuses,
// only that of the first running container counts: it must have resources (ValidatePodResize in
// pkg/apis/core/validation of k8s.io/kubernetes).
func supportsResize(pod *corev1.Pod) bool {
	if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

// Restarts reports whether a resize of a pod restarts a running container.
func Restarts(pod *corev1.Pod, changed []corev1.Container) bool {
	return slices.ContainsFunc(changed, func(c corev1.Container) bool {
		current := containerOf(&pod.Spec, c.Name)
		return isRunning(statusOf(pod, c.Name)) && restarts(current, current.Resources, c.Resources)
	})
}

// restarts reports whether a running container restarts when its resources change.
func restarts(container *corev1.Container, from, to corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool {
		return hasRestartPolicy(container, r.name) && !r.isEqual(from, to)
	})
}

// hasRestartPolicy reports whether a container restarts when a resource changes.
func hasRestartPolicy(container *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(container.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		return policy.ResourceName == name && policy.RestartPolicy == corev1.RestartContainer
	})
}
