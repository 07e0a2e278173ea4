package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"example.com/upright/internal/recommender"
)

// admits reports whether LimitRanges let a pod with such a spec be created, so far as a
// resource goes (plugin/pkg/admission/limitranger in k8s.io/kubernetes, PodValidateLimitFunc).
func admits(ranges []corev1.LimitRange, spec *corev1.PodSpec, r sizedResource) bool {
	whole := total(spec)
	for i := range ranges {
		for j := range ranges[i].Spec.Limits {
			switch item := &ranges[i].Spec.Limits[j]; item.Type {
			case corev1.LimitTypePod:
				if !r.within(item, whole) {
					return false
				}
			case corev1.LimitTypeContainer:
				if slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(container corev1.Container) bool {
					return !r.within(item, container.Resources)
				}) {
					return false
				}
			}
		}
	}
	return true
}

// total returns what a pod requests and is limited to as a whole, by what its containers are.
func total(spec *corev1.PodSpec) corev1.ResourceRequirements {
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}}
	return corev1.ResourceRequirements{
		Requests: resource.PodRequests(pod, resource.PodResourcesOptions{}),
		Limits:   resource.PodLimits(pod, resource.PodResourcesOptions{}),
	}
}

// within reports whether a container or a pod has what an item of a LimitRange asks for.
func (r sizedResource) within(item *corev1.LimitRangeItem, has corev1.ResourceRequirements) bool {
	request, isRequested := has.Requests[r.name]
	limit, isLimited := has.Limits[r.name]
	least, isMinSet := item.Min[r.name]
	most, isMaxSet := item.Max[r.name]
	ratio, isRatioSet := item.MaxLimitRequestRatio[r.name]
	switch {
	case isMinSet && (!isRequested || request.Cmp(least) < 0 || isLimited && limit.Cmp(least) < 0),
		isMaxSet && (!isLimited || limit.Cmp(most) > 0 || isRequested && request.Cmp(most) > 0),
		isRatioSet && (request.IsZero() || limit.IsZero()):
		return false
	case isRatioSet:
		return float64(r.amount(&limit))/float64(r.amount(&request))*1000 <= float64(ratio.MilliValue())
	default:
		return true
	}
}

// itemsOf returns the items of LimitRanges that are about containers, or about pods as a whole.
func itemsOf(ranges []corev1.LimitRange, about corev1.LimitType) []corev1.LimitRangeItem {
	var items []corev1.LimitRangeItem
	for i := range ranges {
		for _, item := range ranges[i].Spec.Limits {
			if item.Type == about {
				items = append(items, item)
			}
		}
	}
	return items
}

// allowedBy returns the least and the greatest amount that every item allows.
func (r sizedResource) allowedBy(items []corev1.LimitRangeItem) (allowed recommender.Range) {
	for i := range items {
		if least, isSet := items[i].Min[r.name]; isSet {
			allowed.Min = max(allowed.Min, r.amount(&least))
		}
		if most, isSet := items[i].Max[r.name]; isSet && (allowed.Max == 0 || r.amount(&most) < allowed.Max) {
			allowed.Max = r.amount(&most)
		}
	}
	return allowed
}
