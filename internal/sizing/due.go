package sizing

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// defaultTolerance, in thousandths, and defaultWindow are those of the API.
	defaultTolerance = 100
	defaultWindow    = 12 * time.Hour
	// excessWindow is the longest that a request above the upper bound is left alone: down
	// later than up, but not half a day where nothing is that uncertain.
	excessWindow = time.Hour
)

// Steady says what the least and the greatest target of a resource were from a window ago
// until now, in milli-CPU or bytes, and whether as much is known.
type Steady func(name corev1.ResourceName, window time.Duration) (least, most int64, ok bool)

// Due returns those of a container's sizes that a running container should get now, and
// whether others wait for their time. The container has its present resources; killed says
// that one of its kind ran out of memory.
func Due(
	behavior *autoscalingv1beta1.Behavior, container *corev1.Container, size autoscalingv1beta1.ContainerSizing,
	recommended *autoscalingv1beta1.ContainerRecommendation, steady Steady, killed bool,
) (due autoscalingv1beta1.ContainerSizing, waits bool) {
	due.ContainerName = size.ContainerName
	up, down := rulesOf(behavior)
	for _, r := range sizedResources {
		target, isSized := size.Requests[r.name]
		if !isSized {
			continue
		}
		off := offset{
			r: r, request: r.of(container.Resources.Requests), target: r.amount(&target),
			isBound: target.Cmp(recommended.Target[r.name]) < 0,
			lower:   r.of(recommended.LowerBound), upper: r.of(recommended.UpperBound),
			killed: killed && r.name == corev1.ResourceMemory,
		}
		isDue, isWaiting := off.due(up, down, steady)
		waits = waits || isWaiting
		if !isDue {
			continue
		}
		r.put(&due.Requests, off.target)
		if limit, isSet := size.Limits[r.name]; isSet {
			r.put(&due.Limits, r.amount(&limit))
		}
	}
	return due, waits
}

// offset is how far a request is off its target.
type offset struct {
	r                             sizedResource
	request, target, lower, upper int64
	killed                        bool
	// isBound says that more is recommended than the container may get.
	isBound bool
}

// told returns the least and the greatest target from a window ago until now, so far as the
// container may get it.
func (o offset) told(steady Steady, window time.Duration) (least, most int64, ok bool) {
	least, most, ok = steady(o.r.name, window)
	if o.isBound {
		least, most = min(least, o.target), min(most, o.target)
	}
	return least, most, ok
}

// due reports whether the request should follow the target now, or else whether it will later.
func (o offset) due(up, down rules, steady Steady) (now, later bool) {
	if o.target > o.request {
		if up.disabled {
			return false, false
		}
		if o.request < o.lower || o.killed {
			return true, false
		}
		least, _, isKnown := o.told(steady, up.window)
		later = up.above(o.target, o.request)
		return later && isKnown && up.above(least, o.request), later
	}
	if down.disabled {
		return false, false
	}
	window := down.window
	if o.request > o.upper {
		window = min(window, excessWindow)
	}
	_, most, isKnown := o.told(steady, window)
	later = down.below(o.target, o.request)
	return later && isKnown && down.below(most, o.request), later
}

// rules are those of one direction.
type rules struct {
	disabled  bool
	window    time.Duration
	tolerance int64 // In thousandths of the request.
}

// above and below report whether a target is off a request by more than the tolerance.
func (r rules) above(target, request int64) bool {
	return (target-request)*1000 > request*r.tolerance
}

func (r rules) below(target, request int64) bool {
	return (request-target)*1000 > request*r.tolerance
}

func rulesOf(behavior *autoscalingv1beta1.Behavior) (up, down rules) {
	if behavior == nil {
		behavior = &autoscalingv1beta1.Behavior{}
	}
	return rulesFrom(behavior.ScaleUp), rulesFrom(behavior.ScaleDown)
}

func rulesFrom(asked *autoscalingv1beta1.ScalingRules) rules {
	r := rules{window: defaultWindow, tolerance: defaultTolerance}
	if asked == nil {
		return r
	}
	r.disabled = asked.SelectPolicy == autoscalingv1beta1.SelectPolicyDisabled
	if asked.StabilizationWindowSeconds != nil {
		r.window = time.Duration(*asked.StabilizationWindowSeconds) * time.Second
	}
	if tolerance := asked.Tolerance; tolerance != nil {
		r.tolerance = tolerance.MilliValue()
	}
	return r
}
