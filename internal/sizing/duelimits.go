package sizing

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// RunningLimits returns the limits that a running container should have with requests. sizes are those
// of new pods. A container whose requests are not those of its size has the limits that a new pod would
// have with them. The result lacks limits that cannot be computed: the size was computed for another
// template, or LimitRanges do not admit a request.
func RunningLimits(
	spec *autoscalingv1beta1.VerticalScalerSpec, template *corev1.PodSpec, sizes []autoscalingv1beta1.ContainerSizing,
	container string, requests corev1.ResourceList, constraints Constraints,
) corev1.ResourceList {
	targets := map[string]corev1.ResourceList{}
	var own autoscalingv1beta1.ContainerSizing
	for _, size := range withoutOtherLimits(sizes, template, constraints.LimitRanges) {
		targets[size.ContainerName] = size.Requests
		if size.ContainerName == container {
			own = size
		}
	}
	if len(own.Limits) == 0 || contains(requests, own.Requests) {
		return own.Limits
	}
	targets[container] = requests
	var limits corev1.ResourceList
	for _, size := range Template(spec, template, targets, constraints) {
		for _, r := range sizedResources {
			_, isLimited := own.Limits[r.name]
			if size.ContainerName == container && isLimited && r.amountIn(size.Requests) == r.amountIn(requests) {
				r.copyAmount(&limits, size.Limits)
			}
		}
	}
	return limits
}

// withoutOtherLimits returns sizes without the limits that were computed for other limits than
// those of the template.
func withoutOtherLimits(
	sizes []autoscalingv1beta1.ContainerSizing, template *corev1.PodSpec, ranges []corev1.LimitRange,
) []autoscalingv1beta1.ContainerSizing {
	own, current := cloneSizes(sizes), cloneSizes(sizes)
	SetTemplateLimits(current, template, ranges)
	for i := range own {
		for _, r := range sizedResources {
			if r.amountIn(own[i].TemplateLimits) != r.amountIn(current[i].TemplateLimits) {
				delete(own[i].Limits, r.name)
			}
		}
	}
	return own
}

// DueLimits adds to the requests that are due for a running container the limits that it should get
// with them. limits are those that belong to its requests, once the due ones are in force.
//
// A limit is raised at once. It is lowered together with its request. Without that, it is lowered
// only if all targets in the window were below it, and for memory the recent peak of the usage too.
// pending reports whether a limit waits for this.
func DueLimits(
	behavior *autoscalingv1beta1.Behavior, container *corev1.Container, due autoscalingv1beta1.ContainerSizing,
	limits corev1.ResourceList, targetRange TargetRange, memoryPeak func() int64,
) (_ autoscalingv1beta1.ContainerSizing, pending bool) {
	up, down := rulesOf(behavior)
	for _, r := range sizedResources {
		limit, isSet := limits[r.name]
		if !isSet {
			continue
		}
		wanted := r.amountOf(&limit)
		current, isLimited := container.Resources.Limits[r.name]
		isRaised := isLimited && wanted > r.amountOf(&current)
		switch {
		case isLimited && wanted == r.amountOf(&current),
			isRaised && up.disabled && !r.isRaised(container.Resources.Requests, due.Requests), !isRaised && down.disabled:
		case isRaised, r.isLowered(container.Resources.Requests, due.Requests), r.isSafe(wanted, down.window, targetRange, memoryPeak):
			r.set(&due.Limits, wanted)
		default:
			pending = true
		}
	}
	return due, pending
}

// isLowered reports whether requests that are due lower the current one.
func (r sizedResource) isLowered(current, due corev1.ResourceList) bool {
	_, isDue := due[r.name]
	return isDue && r.amountIn(due) < r.amountIn(current)
}

// isRaised reports whether requests that are due raise the current one. A revert raises requests also
// if running pods are never raised otherwise.
func (r sizedResource) isRaised(current, due corev1.ResourceList) bool {
	return r.amountIn(due) > r.amountIn(current)
}

// isSafe reports whether a limit may be lowered to an amount.
func (r sizedResource) isSafe(limit int64, window time.Duration, targetRange TargetRange, memoryPeak func() int64) bool {
	_, highest, isKnown := targetRange(r.name, window)
	return isKnown && highest <= limit && (r.name != corev1.ResourceMemory || memoryPeak() <= limit)
}

// SizedRequests returns the requests that a running container has after the due ones are in force, as
// far as its size contains them.
func SizedRequests(container *corev1.Container, size, due autoscalingv1beta1.ContainerSizing) corev1.ResourceList {
	var requests corev1.ResourceList
	for _, r := range sizedResources {
		if _, isSized := size.Requests[r.name]; isSized {
			r.copyAmount(&requests, container.Resources.Requests)
			r.copyAmount(&requests, due.Requests)
		}
	}
	return requests
}

// HasSize reports whether a container has the requests and limits of a size.
func HasSize(container *corev1.Container, size autoscalingv1beta1.ContainerSizing) bool {
	return contains(container.Resources.Requests, size.Requests) && contains(container.Resources.Limits, size.Limits)
}

// contains reports whether a list has all amounts of another one.
func contains(list, amounts corev1.ResourceList) bool {
	for _, r := range sizedResources {
		if amount, isSet := amounts[r.name]; isSet && r.amountIn(list) != r.amountOf(&amount) {
			return false
		}
	}
	return true
}
