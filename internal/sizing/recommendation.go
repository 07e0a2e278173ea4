package sizing

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// A recommendation has changed when a target moves by at least targetChangePercent of its
// previous amount, or a bound by at least boundChangePercent.
const (
	targetChangePercent = 5
	boundChangePercent  = 10
)

// With few samples, the bounds are far from the target and approach it with each sample. The
// exact distance is not useful then. Therefore Changed treats a lower bound as at least the
// target divided by lowerBoundDivisor, and an upper bound as at most the target times
// upperBoundFactor. If the target is 1.15 times the usage, this hides changes of the lower bound
// in the first 4 minutes and changes of the upper bound in the first hours.
const (
	lowerBoundDivisor = 2
	upperBoundFactor  = 10
)

// ContainerRecommendation returns a container's entry in the scaler's status. A resource that
// has no samples is left out. The target is nil if no resource has samples.
func ContainerRecommendation(container string, from recommender.Recommendation) autoscalingv1beta1.ContainerRecommendation {
	return autoscalingv1beta1.ContainerRecommendation{
		ContainerName:  container,
		Target:         listOf(from, func(e recommender.Estimate) int64 { return e.Target }),
		LowerBound:     listOf(from, func(e recommender.Estimate) int64 { return e.LowerBound }),
		UpperBound:     listOf(from, func(e recommender.Estimate) int64 { return e.UpperBound }),
		UncappedTarget: listOf(from, func(e recommender.Estimate) int64 { return e.UncappedTarget }),
		Samples:        from.Samples,
		Span:           metav1.Duration{Duration: from.Span},
		CappedBy:       capsOf(from),
	}
}

// listOf returns one figure of each resource that has samples, or nil.
func listOf(from recommender.Recommendation, figure func(recommender.Estimate) int64) corev1.ResourceList {
	var list corev1.ResourceList
	// The target of a resource is 0 only if it has no samples.
	if from.CPU.Target != 0 {
		cpu.set(&list, figure(from.CPU))
	}
	if from.Memory.Target != 0 {
		memory.set(&list, figure(from.Memory))
	}
	return list
}

// capsOf returns what capped the target of each resource, or nil if nothing did.
func capsOf(from recommender.Recommendation) map[corev1.ResourceName]autoscalingv1beta1.Cap {
	var caps map[corev1.ResourceName]autoscalingv1beta1.Cap
	for name, by := range map[corev1.ResourceName]recommender.Cap{
		corev1.ResourceCPU: from.CPU.CappedBy, corev1.ResourceMemory: from.Memory.CappedBy,
	} {
		if by == "" {
			continue
		}
		if caps == nil {
			caps = map[corev1.ResourceName]autoscalingv1beta1.Cap{}
		}
		caps[name] = autoscalingv1beta1.Cap(by)
	}
	return caps
}

// PodTarget returns the sum of the containers' targets.
func PodTarget(recommendations []autoscalingv1beta1.ContainerRecommendation) corev1.ResourceList {
	var total corev1.ResourceList
	for i := range recommendations {
		for name, amount := range recommendations[i].Target {
			if total == nil {
				total = corev1.ResourceList{}
			}
			sum := total[name]
			sum.Add(amount)
			total[name] = sum
		}
	}
	return total
}

// Changed reports whether recommendations have changed enough to be published again: the
// containers or the caps differ, or a figure has moved enough. A target that is capped follows
// the cap, so any move of it counts. The number and the span of the samples always grow and do
// not count.
func Changed(previous, current []autoscalingv1beta1.ContainerRecommendation) bool {
	return !slices.EqualFunc(previous, current, func(a, b autoscalingv1beta1.ContainerRecommendation) bool {
		return a.ContainerName == b.ContainerName &&
			areClose(a.Target, b.Target, targetChangePercent) &&
			areClose(a.UncappedTarget, b.UncappedTarget, targetChangePercent) &&
			areBoundsClose(&a, &b) &&
			maps.Equal(a.CappedBy, b.CappedBy) && !hasCappedTargetMoved(a, b)
	})
}

// areBoundsClose reports whether each bound has moved by less than boundChangePercent.
func areBoundsClose(previous, current *autoscalingv1beta1.ContainerRecommendation) bool {
	lowerBound := func(of *autoscalingv1beta1.ContainerRecommendation, name corev1.ResourceName) int64 {
		return max(milliIn(of.LowerBound, name), milliIn(of.Target, name)/lowerBoundDivisor)
	}
	upperBound := func(of *autoscalingv1beta1.ContainerRecommendation, name corev1.ResourceName) int64 {
		return min(milliIn(of.UpperBound, name), milliIn(of.Target, name)*upperBoundFactor)
	}
	for name := range current.Target {
		if !isClose(lowerBound(previous, name), lowerBound(current, name), boundChangePercent) ||
			!isClose(upperBound(previous, name), upperBound(current, name), boundChangePercent) {
			return false
		}
	}
	return true
}

func milliIn(list corev1.ResourceList, name corev1.ResourceName) int64 {
	amount := list[name]
	return amount.MilliValue()
}

// hasCappedTargetMoved reports whether the target of a capped resource has moved.
func hasCappedTargetMoved(previous, current autoscalingv1beta1.ContainerRecommendation) bool {
	for name := range current.CappedBy {
		before, after := previous.Target[name], current.Target[name]
		if !before.Equal(after) {
			return true
		}
	}
	return false
}

// areClose reports whether both lists have the same resources and each amount has moved by less
// than the percentage.
func areClose(previous, current corev1.ResourceList, percent float64) bool {
	return maps.EqualFunc(previous, current, func(before, after resource.Quantity) bool {
		return isClose(before.MilliValue(), after.MilliValue(), percent)
	})
}

// isClose reports whether an amount has moved by less than a percentage of its previous value.
func isClose(previous, current int64, percent float64) bool {
	moved := current - previous
	return moved == 0 || math.Abs(float64(moved))*100 < percent*float64(previous)
}
