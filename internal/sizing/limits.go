package sizing

import (
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// wideRatio is the ratio of the limit to the request from which on the limit does not follow the
	// request. Such a limit is a ceiling for bursts: multiplied, it would not protect anything.
	wideRatio = 4
	// headroomPercent is how far a limit that does not follow the request stays above it.
	headroomPercent = 25
)

// limitFor returns the limit for a request that replaces the template's. The limit keeps its ratio
// to the request. A limit of at least wideRatio times the request stays as it is until the request
// comes near it. A limit that equals the request stays equal, and any other limit stays above it,
// because the QoS class of the pod depends on that.
//
// No limit is raised above highest (0 means that there is none), unless the request requires it.
// The template's own limit is not lowered to it: the container may need it.
func (r sizedResource) limitFor(template pair, request, highest int64) int64 {
	if template.limit == template.request {
		return request
	}
	var limit int64
	if template.limit/wideRatio >= template.request {
		limit = max(template.limit, r.roundUp(multiplyDivide(request, 100+headroomPercent, 100)))
	} else {
		limit = r.roundUp(multiplyDivide(request, template.limit, template.request))
	}
	if highest > 0 {
		limit = min(limit, max(highest, template.limit))
	}
	return max(limit, r.roundUp(request+1))
}

// roundUp returns the next multiple of the unit of limits.
func (r sizedResource) roundUp(amount int64) int64 {
	return (amount + r.limitStep - 1) / r.limitStep * r.limitStep
}

// highestLimit returns the amount to which limits are raised at most: maxAllowed of a container's
// policy, and what the largest node can allocate. It is 0 if there is neither.
func (r sizedResource) highestLimit(policy *autoscalingv1beta1.ContainerPolicy, constraints Constraints) int64 {
	highest := r.amountIn(constraints.LargestNode)
	if policy != nil && policy.MaxAllowed != nil {
		if allowed := r.amountAllowed(policy.MaxAllowed); allowed > 0 && (highest == 0 || allowed < highest) {
			highest = allowed
		}
	}
	return highest
}

// amountAllowed returns an amount in a container's policy, or 0 if it is not set.
func (r sizedResource) amountAllowed(amounts *autoscalingv1beta1.ResourceAmounts) int64 {
	if r.name == corev1.ResourceCPU {
		return milliOf(amounts.CPU)
	}
	return bytesOf(amounts.Memory)
}
