package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// NoMoreThanTemplate removes each size that exceeds the resources in a Deployment's template. A
// container without a size for a resource gets the template's own resources. If LimitRanges
// admit the pod without any size, they also admit it with the sizes that remain.
func NoMoreThanTemplate(
	template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange,
) []autoscalingv1beta1.ContainerSizing {
	pod := newLimitedPod(template, ranges)
	sizes = slices.DeleteFunc(cloneSizes(sizes), func(size autoscalingv1beta1.ContainerSizing) bool {
		return pod.container(size.ContainerName) == nil
	})
	for i := range sizes {
		for _, r := range sizedResources {
			if r.exceeds(sizes[i], pod.container(sizes[i].ContainerName).Resources) {
				r.removeFrom(&sizes[i])
			}
		}
	}
	for _, r := range sizedResources {
		if !pod.isAdmitted(r, sizes) && pod.isAdmitted(r, nil) {
			pod.moveTowardsTemplate(r, sizes)
		}
	}
	return withoutEmpty(sizes)
}

// exceeds reports whether the request or the limit of a size is above that of the template.
func (r sizedResource) exceeds(size autoscalingv1beta1.ContainerSizing, template corev1.ResourceRequirements) bool {
	planned := r.pairIn(template)
	return r.amountIn(size.Requests) > planned.request || r.amountIn(size.Limits) > planned.limit
}

// PlanRestore plans how a running pod gets the resources of a Deployment's template back. Only
// resources that exceed the template's change.
func PlanRestore(pod *corev1.Pod, template *corev1.PodSpec, ranges []corev1.LimitRange) Plan {
	return planOf(pod, restored(pod, template, ranges))
}

// restored returns the containers of a pod that have more than a Deployment's template gives
// them, with the template's resources. Ordinary init containers are skipped because they
// cannot be resized.
func restored(pod *corev1.Pod, template *corev1.PodSpec, ranges []corev1.LimitRange) []corev1.Container {
	planned := newLimitedPod(template, ranges)
	var changed []corev1.Container
	for _, container := range pods.Sizable(&pod.Spec) {
		plannedContainer := planned.container(container.Name)
		if plannedContainer == nil {
			continue
		}
		resources := *container.Resources.DeepCopy()
		for _, r := range sizedResources {
			r.restore(&resources, plannedContainer.Resources, pod.Status.QOSClass)
		}
		if !isEqual(resources, container.Resources) {
			container.Resources = resources
			changed = append(changed, container)
		}
	}
	return changed
}

// minRequest is what restore leaves of a request that the template lacks. A resize cannot
// remove a request, and without one the pod's QoS class could change.
const minRequest = 1

// restore lowers the request and the limit to those of the template, if either exceeds it. In
// a Guaranteed pod, the limit stays equal to the request.
func (r sizedResource) restore(resources *corev1.ResourceRequirements, template corev1.ResourceRequirements, class corev1.PodQOSClass) {
	current, planned := r.pairIn(*resources), r.pairIn(template)
	if current.request <= planned.request && current.limit <= planned.limit {
		return
	}
	lowered := pair{request: min(current.request, max(planned.request, minRequest)), limit: current.limit}
	if planned.limit > 0 {
		lowered.limit = min(current.limit, planned.limit)
	}
	if class == corev1.PodQOSGuaranteed {
		lowered.limit = lowered.request
	}
	r.set(&resources.Requests, lowered.request)
	if lowered.limit > 0 {
		r.set(&resources.Limits, lowered.limit)
	}
}
