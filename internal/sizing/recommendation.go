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

// A recommendation is told anew when a target has moved by as much as targetNews, or a bound
// by boundNews, both in percent of what was told.
const (
	targetNews = 5
	boundNews  = 10
)

// While little is known of a container its bounds are far from the target, and close in with
// each sample. How far exactly is no news to anybody: a lower bound counts as half of the
// target at least, and an upper one as ten times the target at most. At 1.15 times usage that
// holds for the first 4 minutes, and for the first hours.
const (
	farBelow = 2
	farAbove = 10
)

// ContainerRecommendation returns what a scaler's status says of a container. A resource that
// has not been measured is left out; the target is nil where none has.
func ContainerRecommendation(container string, of recommender.Recommendation) autoscalingv1beta1.ContainerRecommendation {
	return autoscalingv1beta1.ContainerRecommendation{
		ContainerName:  container,
		Target:         amounts(of, func(e recommender.Estimate) int64 { return e.Target }),
		LowerBound:     amounts(of, func(e recommender.Estimate) int64 { return e.LowerBound }),
		UpperBound:     amounts(of, func(e recommender.Estimate) int64 { return e.UpperBound }),
		UncappedTarget: amounts(of, func(e recommender.Estimate) int64 { return e.UncappedTarget }),
		Samples:        of.Samples,
		Span:           metav1.Duration{Duration: of.Span},
		CappedBy:       caps(of),
	}
}

// amounts returns one figure of each resource that has been measured, nil where none has.
func amounts(of recommender.Recommendation, figure func(recommender.Estimate) int64) corev1.ResourceList {
	var list corev1.ResourceList
	add := func(name corev1.ResourceName, estimate recommender.Estimate, amount *resource.Quantity) {
		if estimate.Target == 0 {
			return
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = *amount
	}
	add(corev1.ResourceCPU, of.CPU, resource.NewMilliQuantity(figure(of.CPU), resource.DecimalSI))
	add(corev1.ResourceMemory, of.Memory, resource.NewQuantity(figure(of.Memory), resource.BinarySI))
	return list
}

// caps returns what capped the target of each resource, nil where nothing did.
func caps(of recommender.Recommendation) map[corev1.ResourceName]autoscalingv1beta1.Cap {
	var capped map[corev1.ResourceName]autoscalingv1beta1.Cap
	for name, by := range map[corev1.ResourceName]recommender.Cap{
		corev1.ResourceCPU: of.CPU.CappedBy, corev1.ResourceMemory: of.Memory.CappedBy,
	} {
		if by == "" {
			continue
		}
		if capped == nil {
			capped = map[corev1.ResourceName]autoscalingv1beta1.Cap{}
		}
		capped[name] = autoscalingv1beta1.Cap(by)
	}
	return capped
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

// News reports whether what is recommended now says something new to those who were told
// before: another container or cap, or a figure that has moved enough. A target that is capped
// moves with what caps it, and each move counts. Number and span of the samples grow all the
// time, and are no news.
func News(told, now []autoscalingv1beta1.ContainerRecommendation) bool {
	return !slices.EqualFunc(told, now, func(a, b autoscalingv1beta1.ContainerRecommendation) bool {
		return a.ContainerName == b.ContainerName &&
			near(a.Target, b.Target, targetNews) &&
			near(a.UncappedTarget, b.UncappedTarget, targetNews) &&
			nearBounds(&a, &b) &&
			maps.Equal(a.CappedBy, b.CappedBy) && !capMoved(a, b)
	})
}

// nearBounds reports whether no bound has moved enough to be news.
func nearBounds(a, b *autoscalingv1beta1.ContainerRecommendation) bool {
	for name := range b.Target {
		was, is := a.Target[name], b.Target[name]
		before, after := was.MilliValue(), is.MilliValue()
		if !nearAmounts(max(milli(a.LowerBound, name), before/farBelow), max(milli(b.LowerBound, name), after/farBelow), boundNews) ||
			!nearAmounts(min(milli(a.UpperBound, name), before*farAbove), min(milli(b.UpperBound, name), after*farAbove), boundNews) {
			return false
		}
	}
	return true
}

func milli(list corev1.ResourceList, name corev1.ResourceName) int64 {
	amount := list[name]
	return amount.MilliValue()
}

// capMoved reports whether the target of a resource that is capped has moved.
func capMoved(before, after autoscalingv1beta1.ContainerRecommendation) bool {
	for name := range after.CappedBy {
		was, is := before.Target[name], after.Target[name]
		if !was.Equal(is) {
			return true
		}
	}
	return false
}

// near reports whether each amount has moved by less than so many percent of what it was. Both
// are whole numbers here, so that an amount that has moved by just as much counts as moved.
func near(before, after corev1.ResourceList, percent float64) bool {
	return maps.EqualFunc(before, after, func(was, is resource.Quantity) bool {
		return nearAmounts(was.MilliValue(), is.MilliValue(), percent)
	})
}

func nearAmounts(was, is int64, percent float64) bool {
	moved := is - was
	return moved == 0 || math.Abs(float64(moved))*100 < percent*float64(was)
}
