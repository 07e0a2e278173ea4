package sizing

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// defaultTolerance, in thousandths of the request, and defaultWindow are the API's defaults.
	defaultTolerance = 100
	defaultWindow    = 12 * time.Hour
	// maxWindowAboveUpperBound limits the stabilization window for a request above the upper
	// bound. Half a day is too long to wait if a request is clearly too large.
	maxWindowAboveUpperBound = time.Hour
)

// TargetRange returns the lowest and the highest target of a resource in the window that ends
// now, in milli-CPU or bytes. ok is false if the targets are not known for the whole window.
type TargetRange func(name corev1.ResourceName, window time.Duration) (lowest, highest int64, ok bool)

// Due returns the requests of a size that a running container should get now. container has its
// current resources. oomKilled reports whether a container of this name ran out of memory in
// any of the Deployment's pods. DueLimits adds the limits.
//
// pending reports whether a request is outside the tolerance and waits for the stabilization
// window.
func Due(
	behavior *autoscalingv1beta1.Behavior, container *corev1.Container, size autoscalingv1beta1.ContainerSizing,
	recommended *autoscalingv1beta1.ContainerRecommendation, targetRange TargetRange, oomKilled bool,
) (due autoscalingv1beta1.ContainerSizing, pending bool) {
	due.ContainerName = size.ContainerName
	up, down := rulesOf(behavior)
	for _, r := range sizedResources {
		target, isSized := size.Requests[r.name]
		if !isSized {
			continue
		}
		c := change{
			resource: r, request: r.amountIn(container.Resources.Requests), target: r.amountOf(&target),
			isBelowRecommended: target.Cmp(recommended.Target[r.name]) < 0,
			lowerBound:         r.amountIn(recommended.LowerBound), upperBound: r.amountIn(recommended.UpperBound),
			oomKilled: oomKilled && r.name == corev1.ResourceMemory,
		}
		isDue, isPending := c.isDue(up, down, targetRange)
		pending = pending || isPending
		if isDue {
			r.copyAmount(&due.Requests, size.Requests)
		}
	}
	return due, pending
}

// change is a change of one resource's request to a target.
type change struct {
	resource               sizedResource
	request, target        int64
	lowerBound, upperBound int64
	oomKilled              bool
	// isBelowRecommended is set if the container cannot get all that is recommended.
	isBelowRecommended bool
}

// isDue reports whether the request should change to the target now, or else whether the change
// waits for the stabilization window.
func (c change) isDue(up, down rules, targetRange TargetRange) (now, pending bool) {
	if c.target == c.request {
		return false, false
	}
	if c.target > c.request {
		if up.disabled {
			return false, false
		}
		if c.request < c.lowerBound || c.oomKilled {
			return true, false
		}
		lowest, _, isKnown := c.targetsWithin(up.window, targetRange)
		now = up.isAbove(c.target, c.request) && isKnown && up.isAbove(lowest, c.request)
		return now, !now && up.isAbove(c.target, c.request)
	}
	if down.disabled {
		return false, false
	}
	window := down.window
	if c.request > c.upperBound {
		window = min(window, maxWindowAboveUpperBound)
	}
	_, highest, isKnown := c.targetsWithin(window, targetRange)
	now = down.isBelow(c.target, c.request) && isKnown && down.isBelow(highest, c.request)
	return now, !now && down.isBelow(c.target, c.request)
}

// targetsWithin returns the lowest and the highest target within the window, as far as the
// container can get them.
func (c change) targetsWithin(window time.Duration, targetRange TargetRange) (lowest, highest int64, ok bool) {
	lowest, highest, ok = targetRange(c.resource.name, window)
	if c.isBelowRecommended {
		lowest, highest = min(lowest, c.target), min(highest, c.target)
	}
	return lowest, highest, ok
}

// rules are the rules for one direction, up or down.
type rules struct {
	disabled  bool
	window    time.Duration
	tolerance int64 // In thousandths of the request.
}

// isAbove reports whether the target is above the request by more than the tolerance.
func (r rules) isAbove(target, request int64) bool {
	return (target-request)*1000 > request*r.tolerance
}

// isBelow reports whether the target is below the request by more than the tolerance.
func (r rules) isBelow(target, request int64) bool {
	return (request-target)*1000 > request*r.tolerance
}

func rulesOf(behavior *autoscalingv1beta1.Behavior) (up, down rules) {
	if behavior == nil {
		behavior = &autoscalingv1beta1.Behavior{}
	}
	if behavior.ScaleDown == nil {
		return rulesFrom(behavior.ScaleUp), rulesFrom(nil)
	}
	return rulesFrom(behavior.ScaleUp), rulesFrom(&behavior.ScaleDown.ScalingRules)
}

func rulesFrom(spec *autoscalingv1beta1.ScalingRules) rules {
	r := rules{window: defaultWindow, tolerance: defaultTolerance}
	if spec == nil {
		return r
	}
	r.disabled = spec.SelectPolicy == autoscalingv1beta1.SelectPolicyDisabled
	if spec.StabilizationWindowSeconds != nil {
		r.window = time.Duration(*spec.StabilizationWindowSeconds) * time.Second
	}
	if spec.Tolerance != nil {
		r.tolerance = spec.Tolerance.MilliValue()
	}
	return r
}
