package sizing

import (
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// Template returns the sizes of those containers in a new pod that have a target, in the order
// of the Deployment's template. If LimitRanges admit a pod with the template's own resources,
// they also admit it with these sizes: if the sum of the sizes is outside what LimitRanges allow
// a whole pod, all targets are scaled by the same factor. No target is scaled below what the
// template requests: that is what the container has without a size.
func Template(
	spec *autoscalingv1beta1.VerticalScalerSpec, template *corev1.PodSpec, targets map[string]corev1.ResourceList, constraints Constraints,
) []autoscalingv1beta1.ContainerSizing {
	pod := newLimitedPod(template, constraints.LimitRanges)
	sizesAt := func(factor float64) []autoscalingv1beta1.ContainerSizing {
		var sizes []autoscalingv1beta1.ContainerSizing
		for _, container := range containersOf(template) {
			if target, hasTarget := targets[container.Name]; hasTarget {
				target = multiply(target, factor, pod.container(container.Name).Resources.Requests)
				sizes = append(sizes, sizeContainer(spec, container, target, constraints))
			}
		}
		return sizes
	}
	sizes := sizesAt(1)
	for _, r := range sizedResources {
		if pod.isAdmitted(r, sizes) || !pod.isAdmitted(r, nil) {
			continue
		}
		r.copySizes(sizes, sizesAt(pod.findFactor(r, sizesAt)))
		if !pod.isAdmitted(r, sizes) {
			pod.moveTowardsTemplate(r, sizes)
		}
	}
	return withoutEmpty(sizes)
}

// limitedPod is a new pod of a Deployment in a namespace with LimitRanges.
type limitedPod struct {
	// spec has the template's containers with the LimitRanges' defaults.
	spec   corev1.PodSpec
	ranges []corev1.LimitRange
}

func newLimitedPod(template *corev1.PodSpec, ranges []corev1.LimitRange) *limitedPod {
	p := &limitedPod{ranges: ranges}
	p.spec.InitContainers, p.spec.Containers = slices.Clone(template.InitContainers), slices.Clone(template.Containers)
	for _, container := range containersOf(&p.spec) {
		container.Resources = withDefaults(container.Resources, ranges)
	}
	return p
}

// container returns the container of the name, or nil.
func (p *limitedPod) container(name string) *corev1.Container {
	return containerOf(&p.spec, name)
}

// withSizes returns the pod's spec with sizes.
func (p *limitedPod) withSizes(sizes []autoscalingv1beta1.ContainerSizing) *corev1.PodSpec {
	spec := &corev1.PodSpec{InitContainers: slices.Clone(p.spec.InitContainers), Containers: slices.Clone(p.spec.Containers)}
	for _, container := range containersOf(spec) {
		for i := range sizes {
			if sizes[i].ContainerName == container.Name {
				container.Resources = withSize(container.Resources, sizes[i])
			}
		}
	}
	return spec
}

// NewPodRequests returns what a new pod of a template requests with sizes.
func NewPodRequests(
	template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing, ranges []corev1.LimitRange,
) corev1.ResourceList {
	spec := newLimitedPod(template, ranges).withSizes(sizes)
	spec.Overhead = template.Overhead
	return podresources.PodRequests(&corev1.Pod{Spec: *spec}, podresources.PodResourcesOptions{})
}

// isAdmitted reports whether the LimitRanges admit the pod with sizes. It checks one resource.
func (p *limitedPod) isAdmitted(r sizedResource, sizes []autoscalingv1beta1.ContainerSizing) bool {
	return len(p.ranges) == 0 || admits(p.ranges, p.withSizes(sizes), r)
}

// searchSteps is the resolution of the binary searches for a factor and for a fraction.
const searchSteps = 1 << 20

// findFactor returns the factor for all targets that brings the whole pod between the min and
// the max of the LimitRanges, as close to 1 as possible. sizesAt returns the sizes for a factor.
// The result is 1 if the pod already fits or if no factor helps.
func (p *limitedPod) findFactor(r sizedResource, sizesAt func(factor float64) []autoscalingv1beta1.ContainerSizing) float64 {
	allowed := r.minMax(itemsOf(p.ranges, corev1.LimitTypePod))
	isTooLarge := func(factor float64) bool {
		pod := podResources(p.withSizes(sizesAt(factor)))
		return allowed.Max > 0 && max(r.amountIn(pod.Requests), r.amountIn(pod.Limits)) > allowed.Max
	}
	isTooSmall := func(factor float64) bool {
		return r.amountIn(podResources(p.withSizes(sizesAt(factor))).Requests) < allowed.Min
	}
	switch {
	case isTooLarge(1):
		// From 1 down towards 0.
		return firstThatFits(isTooLarge, func(step int) float64 { return 1 - float64(step)/searchSteps })
	case isTooSmall(1):
		// From 1 up to searchSteps.
		return firstThatFits(isTooSmall, func(step int) float64 { return searchSteps / float64(searchSteps-step) })
	default:
		return 1
	}
}

// firstThatFits returns the factor of the first step that is not rejected, or 1 if all are.
func firstThatFits(isRejected func(factor float64) bool, factorAt func(step int) float64) float64 {
	step := sort.Search(searchSteps, func(step int) bool { return !isRejected(factorAt(step)) })
	if step == searchSteps {
		return 1
	}
	return factorAt(step)
}

// moveTowardsTemplate changes the sizes of a resource towards the template's own resources,
// just far enough that the LimitRanges admit the pod. If they admit two pods, they admit every
// pod between the two. Therefore they admit the pod up to some fraction of the way from the
// template to the sizes.
func (p *limitedPod) moveTowardsTemplate(r sizedResource, sizes []autoscalingv1beta1.ContainerSizing) {
	sizesAt := func(fraction float64) []autoscalingv1beta1.ContainerSizing {
		moved := cloneSizes(sizes)
		for i := range moved {
			r.interpolate(&moved[i], p.container(moved[i].ContainerName).Resources, fraction)
		}
		return moved
	}
	steps := sort.Search(searchSteps, func(i int) bool { return !p.isAdmitted(r, sizesAt(float64(i+1)/searchSteps)) })
	r.copySizes(sizes, sizesAt(float64(steps)/searchSteps))
}

// interpolate replaces the resource in a size with a value between the template's (fraction 0)
// and the size's own (fraction 1). With fraction 0, the resource is removed from the size
// because the container then gets the template's value.
func (r sizedResource) interpolate(size *autoscalingv1beta1.ContainerSizing, template corev1.ResourceRequirements, fraction float64) {
	if fraction == 0 {
		r.removeFrom(size)
	}
	request, isSized := size.Requests[r.name]
	if !isSized {
		return
	}
	start := r.pairIn(template)
	between := func(from, to int64) float64 { return float64(from) + float64(to-from)*fraction }
	// Requests are rounded up and limits down. Otherwise, the ratio of the limit to the request
	// could be greater than at both ends.
	result := pair{request: int64(math.Ceil(between(start.request, r.amountOf(&request)))), limit: start.limit}
	if limit, isSet := size.Limits[r.name]; isSet {
		result.limit = int64(between(start.limit, r.amountOf(&limit)))
		r.set(&size.Limits, result.limit)
	}
	if result.limit > 0 {
		result.request = min(result.request, result.limit)
	}
	r.set(&size.Requests, result.request)
}

// copySizes replaces the resource in each size with that of the same container in other sizes.
// Both have the same containers in the same order.
func (r sizedResource) copySizes(to, from []autoscalingv1beta1.ContainerSizing) {
	for i := range to {
		r.removeFrom(&to[i])
		r.copyAmount(&to[i].Requests, from[i].Requests)
		r.copyAmount(&to[i].Limits, from[i].Limits)
	}
}

// multiply returns amounts multiplied by a factor, each at most maxAmount. A factor below 1 does not
// lower an amount below its minimum.
func multiply(amounts corev1.ResourceList, factor float64, minimum corev1.ResourceList) corev1.ResourceList {
	if factor == 1 {
		return amounts
	}
	var list corev1.ResourceList
	for _, r := range sizedResources {
		if quantity, isSet := amounts[r.name]; isSet {
			amount := r.amountOf(&quantity)
			r.set(&list, max(int64(min(float64(amount)*factor, maxAmount)), min(amount, r.amountIn(minimum))))
		}
	}
	return list
}

// withoutEmpty removes the sizes that have no request.
func withoutEmpty(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	sizes = slices.DeleteFunc(sizes, func(size autoscalingv1beta1.ContainerSizing) bool { return len(size.Requests) == 0 })
	if len(sizes) == 0 {
		return nil
	}
	return sizes
}

func cloneSizes(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	cloned := make([]autoscalingv1beta1.ContainerSizing, len(sizes))
	for i := range sizes {
		sizes[i].DeepCopyInto(&cloned[i])
	}
	return cloned
}

// containersOf returns pointers to all containers of a pod, so that callers can change them.
func containersOf(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i])
		}
	}
	return all
}

// containerOf returns a pointer to the container of the name, or nil.
func containerOf(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, container := range containersOf(spec) {
		if container.Name == name {
			return container
		}
	}
	return nil
}

// SetTemplateLimits sets the template's own limits in sizes that have limits, with the defaults
// that LimitRanges add.
func SetTemplateLimits(sizes []autoscalingv1beta1.ContainerSizing, template *corev1.PodSpec, ranges []corev1.LimitRange) {
	limited := newLimitedPod(template, ranges)
	for i := range sizes {
		sizes[i].TemplateLimits = nil
		container := limited.container(sizes[i].ContainerName)
		for _, r := range sizedResources {
			if _, isSet := sizes[i].Limits[r.name]; isSet && container != nil {
				r.set(&sizes[i].TemplateLimits, r.amountIn(container.Resources.Limits))
			}
		}
	}
}
