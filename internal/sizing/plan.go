package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Plan describes the in-place resize of a running pod.
type Plan struct {
	// Containers are the containers that change, with their new resources. It is empty if the
	// pod needs no resize.
	Containers []corev1.Container
	// Blocked is a reason of the Applied condition if the pod cannot be resized in place.
	Blocked string
	// Restarts is set if the resize restarts a container.
	Restarts bool
}

// PlanResize plans how a running pod gets the sizes that are due.
func PlanResize(pod *corev1.Pod, due []autoscalingv1beta1.ContainerSizing) Plan {
	return planOf(pod, resized(pod, due))
}

// planOf returns the plan for containers of a pod that get other resources.
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
	case pod.Status.QOSClass == corev1.PodQOSBestEffort, qosClassAfter(pod, plan.Containers) != qosClassAfter(pod, nil):
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

// supportsResize reports whether the API server accepts a resize of the pod. Only the first
// running container counts: its status must have resources (isPodResizeRequestSupported in
// pkg/apis/core/validation of k8s.io/kubernetes).
func supportsResize(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

func statusOf(pod *corev1.Pod, containerName string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == containerName {
				return &statuses[i]
			}
		}
	}
	return nil
}

// restarts reports whether a container restarts when it gets the resources of changed.
func restarts(container, changed *corev1.Container) bool {
	return slices.ContainsFunc(container.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		return policy.RestartPolicy == corev1.RestartContainer &&
			slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool {
				return r.name == policy.ResourceName && !r.isEqual(container.Resources, changed.Resources)
			})
	})
}

// Resizing returns the state of a resize that is not complete: a reason of the Applied condition,
// and the kubelet's message. Both are empty if the pod has the resources in its spec.
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
		if status != nil && status.Resources != nil && !isEqual(container.Resources, *status.Resources) {
			return autoscalingv1beta1.ReasonResizing, ""
		}
	}
	return "", ""
}
