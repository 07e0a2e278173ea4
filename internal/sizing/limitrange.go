package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"example.com/upright/internal/recommender"
)

// itemsOf returns the items of LimitRanges that have the type: containers or whole pods.
func itemsOf(ranges []corev1.LimitRange, limitType corev1.LimitType) []corev1.LimitRangeItem {
	var items []corev1.LimitRangeItem
	for i := range ranges {
		for _, item := range ranges[i].Spec.Limits {
			if item.Type == limitType {
				items = append(items, item)
			}
		}
	}
	return items
}

// minMax returns the range that all items allow for the resource.
func (r sizedResource) minMax(items []corev1.LimitRangeItem) (allowed recommender.Range) {
	for i := range items {
		if lower, isSet := items[i].Min[r.name]; isSet {
			allowed.Min = max(allowed.Min, r.amountOf(&lower))
		}
		if upper, isSet := items[i].Max[r.name]; isSet && (allowed.Max == 0 || r.amountOf(&upper) < allowed.Max) {
			allowed.Max = r.amountOf(&upper)
		}
	}
	return allowed
}

// allowedAmounts are the requests and limits of a resource that LimitRanges allow a container.
type allowedAmounts struct {
	recommender.Range
	// maxRatio is the maximum ratio of the limit to the request; 0 allows any ratio.
	maxRatio float64
}

// allowedForContainers returns the amounts that all LimitRanges allow a container.
func (r sizedResource) allowedForContainers(ranges []corev1.LimitRange) allowedAmounts {
	items := itemsOf(ranges, corev1.LimitTypeContainer)
	allowed := allowedAmounts{Range: r.minMax(items)}
	for i := range items {
		quantity, isSet := items[i].MaxLimitRequestRatio[r.name]
		if ratio := quantity.AsApproximateFloat64(); isSet && (allowed.maxRatio == 0 || ratio < allowed.maxRatio) {
			allowed.maxRatio = ratio
		}
	}
	return allowed
}

// clamp returns the allowed amount that is closest to the given one.
func (a allowedAmounts) clamp(amount int64) int64 {
	amount = max(amount, a.Min)
	if a.Max > 0 {
		amount = min(amount, a.Max)
	}
	return amount
}

// withDefaults adds the LimitRanges' defaults to a container's resources. The API server adds
// them in the same way before a pod is sized: first, a limit without a request becomes the
// request too (plugin/pkg/admission/limitranger in k8s.io/kubernetes, mergeContainerResources).
func withDefaults(resources corev1.ResourceRequirements, ranges []corev1.LimitRange) corev1.ResourceRequirements {
	resources = *resources.DeepCopy()
	for _, r := range sizedResources {
		addDefault(&resources.Requests, resources.Limits, r.name)
	}
	for _, item := range itemsOf(ranges, corev1.LimitTypeContainer) {
		for _, r := range sizedResources {
			addDefault(&resources.Limits, item.Default, r.name)
			addDefault(&resources.Requests, item.DefaultRequest, r.name)
		}
	}
	return resources
}

// addDefault adds the default of a resource to a list that lacks the resource.
func addDefault(list *corev1.ResourceList, defaults corev1.ResourceList, name corev1.ResourceName) {
	amount, hasDefault := defaults[name]
	if _, isSet := (*list)[name]; isSet || !hasDefault {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = amount
}

// admits reports whether LimitRanges admit a pod. It checks one resource only
// (plugin/pkg/admission/limitranger in k8s.io/kubernetes, PodValidateLimitFunc).
func admits(ranges []corev1.LimitRange, spec *corev1.PodSpec, r sizedResource) bool {
	pod := podResources(spec)
	for i := range ranges {
		for j := range ranges[i].Spec.Limits {
			switch item := &ranges[i].Spec.Limits[j]; item.Type {
			case corev1.LimitTypePod:
				if !r.isAllowed(item, pod) {
					return false
				}
			case corev1.LimitTypeContainer:
				if slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(container corev1.Container) bool {
					return !r.isAllowed(item, container.Resources)
				}) {
					return false
				}
			}
		}
	}
	return true
}

// podResources returns the requests and limits of a whole pod, computed from its containers.
func podResources(spec *corev1.PodSpec) corev1.ResourceRequirements {
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}}
	return corev1.ResourceRequirements{
		Requests: resource.PodRequests(pod, resource.PodResourcesOptions{}),
		Limits:   resource.PodLimits(pod, resource.PodResourcesOptions{}),
	}
}

// isAllowed reports whether an item of a LimitRange allows the request and the limit of a
// container or of a whole pod.
func (r sizedResource) isAllowed(item *corev1.LimitRangeItem, resources corev1.ResourceRequirements) bool {
	request, isRequested := resources.Requests[r.name]
	limit, isLimited := resources.Limits[r.name]
	lower, hasMin := item.Min[r.name]
	upper, hasMax := item.Max[r.name]
	ratio, hasRatio := item.MaxLimitRequestRatio[r.name]
	switch {
	case hasMin && (!isRequested || request.Cmp(lower) < 0 || isLimited && limit.Cmp(lower) < 0),
		hasMax && (!isLimited || limit.Cmp(upper) > 0 || isRequested && request.Cmp(upper) > 0),
		hasRatio && (request.IsZero() || limit.IsZero()):
		return false
	case hasRatio:
		return float64(r.amountOf(&limit))/float64(r.amountOf(&request))*1000 <= float64(ratio.MilliValue())
	default:
		return true
	}
}
