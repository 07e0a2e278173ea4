package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Resized returns the containers of a running pod that have another size than they should,
// with the resources that they should have. A size that does not fit a container, whose
// request would be above its limit, is left out, as it is when the pod is born.
func Resized(pod *corev1.Pod, sizes []autoscalingv1beta1.ContainerSizing) []corev1.Container {
	var changed []corev1.Container
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range sizes {
			if sizes[i].ContainerName != container.Name {
				continue
			}
			resources := with(container.Resources, sizes[i])
			if fits(resources) && !same(resources, container.Resources) {
				container.Resources = resources
				changed = append(changed, container)
			}
		}
	}
	return changed
}

// with returns a container's resources with those that are given a size.
func with(resources corev1.ResourceRequirements, size autoscalingv1beta1.ContainerSizing) corev1.ResourceRequirements {
	resources = *resources.DeepCopy()
	for _, r := range sizedResources {
		if request, isSet := size.Requests[r.name]; isSet {
			r.put(&resources.Requests, r.amount(&request))
		}
		if limit, isSet := size.Limits[r.name]; isSet {
			r.put(&resources.Limits, r.amount(&limit))
		}
	}
	return resources
}

// fits reports whether no request is above its limit.
func fits(resources corev1.ResourceRequirements) bool {
	for _, r := range sizedResources {
		if limit, isSet := resources.Limits[r.name]; isSet && r.of(resources.Requests) > r.amount(&limit) {
			return false
		}
	}
	return true
}

// same reports whether requests and limits are.
func same(a, b corev1.ResourceRequirements) bool {
	return !slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool { return !r.same(a, b) })
}

// same reports whether request and limit of the resource are.
func (r sizedResource) same(a, b corev1.ResourceRequirements) bool {
	return r.of(a.Requests) == r.of(b.Requests) && r.of(a.Limits) == r.of(b.Limits)
}

// QOSClassAfter returns the quality of service class that a pod would have if some of its
// containers had other resources. That of a running pod is fixed
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos).
func QOSClassAfter(pod *corev1.Pod, changed []corev1.Container) corev1.PodQOSClass {
	guaranteed, bestEffort := true, true
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range changed {
			if changed[i].Name == container.Name {
				container = changed[i]
			}
		}
		for _, r := range sizedResources {
			request, limit := r.of(container.Resources.Requests), r.of(container.Resources.Limits)
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
