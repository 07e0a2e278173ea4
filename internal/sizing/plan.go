package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Plan is how a running pod gets another size in place.
type Plan struct {
	// Containers are those that change, with the resources they should have; none where the pod
	// stays as it is.
	Containers []corev1.Container
	// Blocked is the reason, one of those of the condition Applied, for which they cannot.
	Blocked string
	// Restarts says that a container is restarted by it.
	Restarts bool
}

// PlanResize returns how a running pod gets the sizes that are due.
func PlanResize(pod *corev1.Pod, due []autoscalingv1beta1.ContainerSizing) Plan {
	return planOf(pod, Resized(pod, due))
}

// planOf returns how containers of a pod get other resources.
func planOf(pod *corev1.Pod, changed []corev1.Container) Plan {
	plan := Plan{Containers: changed}
	if len(plan.Containers) == 0 {
		return plan
	}
	switch {
	case pod.Spec.Resources != nil:
		plan.Blocked = autoscalingv1beta1.ReasonPodLevelResources
	case !supportsResize(pod):
		plan.Blocked = autoscalingv1beta1.ReasonResizeUnsupported
	case pod.Status.QOSClass == corev1.PodQOSBestEffort, QOSClassAfter(pod, plan.Containers) != QOSClassAfter(pod, nil):
		plan.Blocked = autoscalingv1beta1.ReasonQoSClassFixed
	}
	for i := range plan.Containers {
		changed := &plan.Containers[i]
		status := statusOf(pod, changed.Name)
		plan.Restarts = plan.Restarts ||
			status != nil && status.State.Running != nil && restarts(containerOf(&pod.Spec, changed.Name), changed)
	}
	return plan
}

// supportsResize reports whether the API server takes a resize of a pod for one that the node
// can do: the first container that runs tells (isPodResizeRequestSupported in
// pkg/apis/core/validation of k8s.io/kubernetes).
func supportsResize(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

// restarts reports whether a container is restarted when it gets the resources of changed.
func restarts(container, changed *corev1.Container) bool {
	return slices.ContainsFunc(container.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		return policy.RestartPolicy == corev1.RestartContainer &&
			slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool {
				return r.name == policy.ResourceName && !r.same(container.Resources, changed.Resources)
			})
	})
}

// Resizing returns how the resize goes that was asked for in a pod's spec: the reason of the
// condition Applied, and what the kubelet says of it. There is none where the pod has what its
// spec says.
func Resizing(pod *corev1.Pod) (reason, message string) {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case condition.Type == corev1.PodResizePending && condition.Reason == corev1.PodReasonInfeasible:
			return autoscalingv1beta1.ReasonResizeInfeasible, condition.Message
		case condition.Type == corev1.PodResizePending:
			return autoscalingv1beta1.ReasonResizeDeferred, condition.Message
		case condition.Type == corev1.PodResizeInProgress && condition.Reason == corev1.PodReasonError:
			return autoscalingv1beta1.ReasonResizeFailed, condition.Message
		case condition.Type == corev1.PodResizeInProgress:
			return autoscalingv1beta1.ReasonResizing, condition.Message
		}
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		status := statusOf(pod, container.Name)
		if status != nil && status.Resources != nil && !same(container.Resources, *status.Resources) {
			return autoscalingv1beta1.ReasonResizing, ""
		}
	}
	return "", ""
}
