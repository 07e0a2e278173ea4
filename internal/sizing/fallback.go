package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// NoMoreThanTemplate returns sizes without those that are above what a Deployment's template
// has; a container gets what the template says of a resource that it has no size of. There is
// nothing in it that keeps a pod from being created which can be without any size.
func NoMoreThanTemplate(
	template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange,
) []autoscalingv1beta1.ContainerSizing {
	t := newTemplate(template, ranges)
	sizes = slices.DeleteFunc(copied(sizes), func(size autoscalingv1beta1.ContainerSizing) bool {
		return t.container(size.ContainerName) == nil
	})
	for i := range sizes {
		for _, r := range sizedResources {
			if r.above(t.container(sizes[i].ContainerName).Resources, sizes[i]) {
				r.drop(&sizes[i])
			}
		}
	}
	for _, r := range sizedResources {
		if !t.admits(r, sizes) && t.admits(r, nil) {
			t.approach(r, sizes)
		}
	}
	return nonEmpty(sizes)
}

// above reports whether a size is more than a container has.
func (r sizedResource) above(has corev1.ResourceRequirements, size autoscalingv1beta1.ContainerSizing) bool {
	was := r.pairOf(has)
	return r.of(size.Requests) > was.request || r.of(size.Limits) > was.limit
}

// least is what a container keeps requesting of a resource of which its template requests
// nothing: a request cannot be taken away from a pod, and without any the pod's quality of
// service class might change.
const least = 1

// PlanRestore returns how a pod that has more than a Deployment's template gives it gets what it
// gives.
func PlanRestore(pod *corev1.Pod, template *corev1.PodSpec, ranges []corev1.LimitRange) Plan {
	return planOf(pod, restored(pod, template, ranges))
}

// restored returns those containers of a pod, of those that can be resized, that have more than
// a Deployment's template gives them, with what it gives them.
func restored(pod *corev1.Pod, template *corev1.PodSpec, ranges []corev1.LimitRange) []corev1.Container {
	t := newTemplate(template, ranges)
	var changed []corev1.Container
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		planned := t.container(container.Name)
		if planned == nil || isInit(pod, container) {
			continue
		}
		resources := *container.Resources.DeepCopy()
		for _, r := range sizedResources {
			r.restore(&resources, planned.Resources, pod.Status.QOSClass == corev1.PodQOSGuaranteed)
		}
		if !same(resources, container.Resources) {
			container.Resources = resources
			changed = append(changed, container)
		}
	}
	return changed
}

// restore lowers request and limit to what was planned.
func (r sizedResource) restore(has *corev1.ResourceRequirements, planned corev1.ResourceRequirements, isGuaranteed bool) {
	is, was := r.pairOf(*has), r.pairOf(planned)
	if is.request <= was.request && is.limit <= was.limit {
		return
	}
	now := pair{request: min(is.request, max(was.request, least)), limit: is.limit}
	if was.limit > 0 {
		now.limit = min(is.limit, was.limit)
	}
	if isGuaranteed {
		now.limit = now.request
	}
	r.put(&has.Requests, now.request)
	if now.limit > 0 {
		r.put(&has.Limits, now.limit)
	}
}

// isInit reports whether a container is one that ends before the pod's others begin.
func isInit(pod *corev1.Pod, container corev1.Container) bool {
	return container.RestartPolicy == nil &&
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container.Name })
}
