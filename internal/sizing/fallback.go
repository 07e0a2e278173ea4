package sizing

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// insufficient matches what the scheduler reports for a node without enough free CPU or memory
// (pkg/scheduler/framework/plugins/noderesources in k8s.io/kubernetes). Extended resources can have
// a name that begins in the same way.
var insufficient = regexp.MustCompile(`\bInsufficient (cpu|memory)(?:[.,]?\s|[.,]?$)`)

// Insufficient returns the resources that nodes lack for a pod, according to the scheduler's
// message. No other obstacle to the scheduling of a pod has to do with its size.
func Insufficient(message string) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, match := range insufficient.FindAllStringSubmatch(message, -1) {
		if name := corev1.ResourceName(match[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// AllResources returns the names of the resources that are sized.
func AllResources() []corev1.ResourceName {
	return []corev1.ResourceName{cpu.name, memory.name}
}

// named returns the sized resources with the names.
func named(names []corev1.ResourceName) []sizedResource {
	return slices.DeleteFunc(slices.Clone(sizedResources[:]), func(r sizedResource) bool { return !slices.Contains(names, r.name) })
}

// NoMoreThan lowers the named resources of each size to another size of the same container, if
// they exceed it. What exceeds the template is not lowered below the template: a pod without a size
// would have that. Their limits are those that the template's limits give for the lower requests. If
// LimitRanges admit the pod without any size, they also admit it with the result.
func NoMoreThan(
	template *corev1.PodSpec, sizes, most []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange, names []corev1.ResourceName,
) []autoscalingv1beta1.ContainerSizing {
	sizes = cloneSizes(sizes)
	pod := newLimitedPod(template, ranges)
	for i := range sizes {
		container := pod.container(sizes[i].ContainerName)
		other := SizeOf(most, sizes[i].ContainerName)
		if other == nil || container == nil {
			continue
		}
		for _, r := range named(names) {
			r.lower(&sizes[i], *other, r.pairIn(container.Resources))
		}
	}
	return pod.admitted(sizes)
}

// lower lowers the request of a size to that of another size, and its limit accordingly.
func (r sizedResource) lower(size *autoscalingv1beta1.ContainerSizing, most autoscalingv1beta1.ContainerSizing, template pair) {
	_, isSized := size.Requests[r.name]
	_, isKnown := most.Requests[r.name]
	current := pair{request: r.amountIn(size.Requests), limit: r.amountIn(size.Limits)}
	if !isSized || !isKnown || current.request == 0 {
		return
	}
	request := min(current.request, r.amountIn(most.Requests))
	if current.request > template.request {
		request = max(request, template.request)
	}
	r.set(&size.Requests, request)
	if current.limit == 0 {
		return
	}
	r.set(&size.Limits, max(request, min(current.limit, r.limitFor(template, request, current.limit))))
}

// NoMoreThanTemplate removes the named resources of each size that exceed the resources in a
// Deployment's template. A container without a size for a resource gets the template's own
// resources. If LimitRanges admit the pod without any size, they also admit it with the sizes that
// remain.
func NoMoreThanTemplate(
	template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange, names []corev1.ResourceName,
) []autoscalingv1beta1.ContainerSizing {
	pod := newLimitedPod(template, ranges)
	sizes = slices.DeleteFunc(cloneSizes(sizes), func(size autoscalingv1beta1.ContainerSizing) bool {
		return pod.container(size.ContainerName) == nil
	})
	for i := range sizes {
		for _, r := range named(names) {
			if r.exceeds(sizes[i], pod.container(sizes[i].ContainerName).Resources) {
				r.removeFrom(&sizes[i])
			}
		}
	}
	return pod.admitted(sizes)
}

// admitted moves sizes towards the template as far as LimitRanges require. It changes the sizes.
func (p *limitedPod) admitted(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	for _, r := range sizedResources {
		if !p.isAdmitted(r, sizes) && p.isAdmitted(r, nil) {
			p.moveTowardsTemplate(r, sizes)
		}
	}
	return withoutEmpty(sizes)
}

// exceeds reports whether the request or the limit of a size is above that of the template.
func (r sizedResource) exceeds(size autoscalingv1beta1.ContainerSizing, template corev1.ResourceRequirements) bool {
	planned := r.pairIn(template)
	return r.amountIn(size.Requests) > planned.request || r.amountIn(size.Limits) > planned.limit
}

// DiffersFromTemplate reports whether a new pod with sizes has other resources than one without.
func DiffersFromTemplate(template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange) bool {
	pod := newLimitedPod(template, ranges)
	return slices.ContainsFunc(containersOf(pod.withSizes(sizes)), func(sized *corev1.Container) bool {
		return !isEqual(sized.Resources, pod.container(sized.Name).Resources)
	})
}
