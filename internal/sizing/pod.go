package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// resized returns the containers of a running pod whose resources differ from their size, with
// the resources of the size. It skips a size whose request would exceed the container's limit,
// as the admission policy does at creation.
func resized(pod *corev1.Pod, sizes []autoscalingv1beta1.ContainerSizing) []corev1.Container {
	var changed []corev1.Container
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range sizes {
			if sizes[i].ContainerName != container.Name {
				continue
			}
			resources := withSize(container.Resources, sizes[i])
			if isValid(resources) && !isEqual(resources, container.Resources) {
				container.Resources = resources
				changed = append(changed, container)
			}
		}
	}
	return changed
}

// isLimitTooLow reports whether resized skips a size.
func isLimitTooLow(pod *corev1.Pod, sizes []autoscalingv1beta1.ContainerSizing) bool {
	return slices.ContainsFunc(sizes, func(size autoscalingv1beta1.ContainerSizing) bool {
		container := containerOf(&pod.Spec, size.ContainerName)
		return container != nil && !isValid(withSize(container.Resources, size))
	})
}

// withSize returns a container's resources with the requests and limits of a size.
func withSize(resources corev1.ResourceRequirements, size autoscalingv1beta1.ContainerSizing) corev1.ResourceRequirements {
	resources = *resources.DeepCopy()
	for _, r := range sizedResources {
		r.copyAmount(&resources.Requests, size.Requests)
		r.copyAmount(&resources.Limits, size.Limits)
	}
	return resources
}

// isValid reports whether no request exceeds its limit.
func isValid(resources corev1.ResourceRequirements) bool {
	for _, r := range sizedResources {
		if limit, isSet := resources.Limits[r.name]; isSet && r.amountIn(resources.Requests) > r.amountOf(&limit) {
			return false
		}
	}
	return true
}

// keepsQoSClass reports whether a pod keeps its quality of service class when containers change.
func keepsQoSClass(pod *corev1.Pod, changed []corev1.Container) bool {
	class := pod.Status.QOSClass
	if class == "" {
		class = qosClassAfter(pod, nil)
	}
	return qosClassAfter(pod, changed) == class
}

// qosClassAfter returns the quality of service class of a pod after the changed containers
// replace its own. A resize cannot change the class of a running pod
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos).
func qosClassAfter(pod *corev1.Pod, changed []corev1.Container) corev1.PodQOSClass {
	guaranteed, bestEffort := true, true
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range changed {
			if changed[i].Name == container.Name {
				container = changed[i]
			}
		}
		for _, r := range sizedResources {
			request, limit := r.amountIn(container.Resources.Requests), r.amountIn(container.Resources.Limits)
			bestEffort = bestEffort && request == 0 && limit == 0
			guaranteed = guaranteed && limit > 0 && request == limit
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
