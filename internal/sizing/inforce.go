package sizing

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// Resizing returns why the resources in a running pod's spec are not in force, or are not known
// to be: a reason of the Applied condition, and the kubelet's message. Both are empty if the
// status of the pod reports the resources in its spec.
func Resizing(pod *corev1.Pod) (reason, message string) {
	pending, inProgress := resizeConditions(pod)
	switch {
	case pending != nil && pending.Reason == corev1.PodReasonInfeasible:
		return autoscalingv1beta1.ReasonResizeInfeasible, stableText(pending.Message)
	case pending != nil:
		return autoscalingv1beta1.ReasonResizeDeferred, stableText(pending.Message)
	case hasStopped(pod):
		return autoscalingv1beta1.ReasonPodsNotRunning, ""
	case inProgress != nil && inProgress.Reason == corev1.PodReasonError:
		return autoscalingv1beta1.ReasonResizeFailed, stableText(inProgress.Message)
	case inProgress != nil:
		return autoscalingv1beta1.ReasonResizing, stableText(inProgress.Message)
	default:
		return notReported(pod), ""
	}
}

// resizeConditions returns the conditions of a resize that is pending or in progress, or nil.
func resizeConditions(pod *corev1.Pod) (pending, inProgress *corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Status != corev1.ConditionTrue || isOutdated(condition, pod) {
			continue
		}
		switch condition.Type {
		case corev1.PodResizePending:
			pending = condition
		case corev1.PodResizeInProgress:
			inProgress = condition
		}
	}
	return pending, inProgress
}

// isOutdated reports whether a condition is from before the last resize. The kubelet keeps the
// generation of a condition if a later change of the spec is no resize, so the generation of the
// whole status counts too. A kubelet that does not report generations leaves 0.
func isOutdated(condition *corev1.PodCondition, pod *corev1.Pod) bool {
	observed := max(condition.ObservedGeneration, pod.Status.ObservedGeneration)
	return observed != 0 && observed < pod.Generation
}

// hasStopped reports whether a container of a pod that has started is down. The status of such a
// container has the resources in the spec, although they are not in force.
func hasStopped(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for container := range pods.EachSizable(&pod.Spec) {
		if status := statusOf(pod, container.Name); !isRunning(status) && isRestarted(container) {
			return true
		}
	}
	return false
}

func isRunning(status *corev1.ContainerStatus) bool {
	return status != nil && status.State.Running != nil
}

// isRestarted reports whether a container of a Deployment's pod runs as long as the pod.
func isRestarted(container *corev1.Container) bool {
	return container.RestartPolicy == nil || *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// notReported returns a reason if the status of a running container does not have the resources
// in its spec.
func notReported(pod *corev1.Pod) string {
	reason := ""
	for container := range pods.EachSizable(&pod.Spec) {
		status := statusOf(pod, container.Name)
		switch {
		case !isRunning(status):
		case status.Resources == nil:
			reason = autoscalingv1beta1.ReasonResourcesNotReported
		case !isEqual(container.Resources, *status.Resources):
			return autoscalingv1beta1.ReasonResizing
		}
	}
	return reason
}

// IsRestarting reports whether the resize of a pod that is in progress restarts a container.
func IsRestarting(pod *corev1.Pod) bool {
	if pending, _ := resizeConditions(pod); pending != nil {
		return false // The kubelet has not accepted it.
	}
	for container := range pods.EachSizable(&pod.Spec) {
		if actual := inForce(pod, container); actual != nil && restarts(container, *actual, container.Resources) {
			return true
		}
	}
	return false
}

// inForce returns the resources with which a container runs, or nil if it does not run or its
// status does not report them.
func inForce(pod *corev1.Pod, container *corev1.Container) *corev1.ResourceRequirements {
	if status := statusOf(pod, container.Name); isRunning(status) {
		return status.Resources
	}
	return nil
}

func statusOf(pod *corev1.Pod, containerName string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == containerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if pod.Status.InitContainerStatuses[i].Name == containerName {
			return &pod.Status.InitContainerStatuses[i]
		}
	}
	return nil
}

// isEqual reports whether the requests and limits of all sized resources are the same.
func isEqual(a, b corev1.ResourceRequirements) bool {
	if isSame(a.Requests, b.Requests) && isSame(a.Limits, b.Limits) {
		return true
	}
	for _, r := range sizedResources {
		if !r.isEqual(a, b) {
			return false
		}
	}
	return true
}

// isSame reports whether two lists are one map. The cache stores equal lists once, so this spares
// most comparisons of amounts.
func isSame(a, b corev1.ResourceList) bool {
	return AddressOf(a) == AddressOf(b)
}

// number matches an amount in a message, but not a number in a name.
var number = regexp.MustCompile(`(^|[\s(:=,])\d[0-9.]*[A-Za-z]*\b`)

// stableText returns a kubelet's message without line breaks and amounts. They change each time
// the kubelet retries, and in a condition they would make every retry a write of the status.
func stableText(message string) string {
	return number.ReplaceAllString(strings.Join(strings.Fields(message), " "), "${1}…")
}
