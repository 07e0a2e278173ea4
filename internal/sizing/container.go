package sizing

import (
	"math"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// sizeContainer returns the size that a container of the Deployment's template gets in a new
// pod. The size is empty if the scaler's policy excludes the container or if there is no target.
//
// The limit follows the request as limitFor describes, unless the policy controls requests only.
// The request does not exceed the limit, and both are within the LimitRanges. Otherwise, the API
// server would reject the pod. A resource with a limit of 0 gets no size because it can have no
// request.
func sizeContainer(
	spec *autoscalingv1beta1.VerticalScalerSpec, container *corev1.Container, target corev1.ResourceList, constraints Constraints,
) autoscalingv1beta1.ContainerSizing {
	size := autoscalingv1beta1.ContainerSizing{ContainerName: container.Name}
	policy := policyOf(spec, container.Name)
	if policy != nil && policy.Mode == autoscalingv1beta1.ContainerModeOff {
		return size
	}
	requestsOnly := policy != nil && policy.ControlledValues == autoscalingv1beta1.ControlledValuesRequestsOnly
	resources := withDefaults(container.Resources, constraints.LimitRanges)
	for _, r := range sizedResources {
		quantity, hasTarget := target[r.name]
		if !hasTarget || !controls(policy, r.name) {
			continue
		}
		current := r.pairIn(resources)
		if _, isLimited := resources.Limits[r.name]; isLimited && current.limit == 0 {
			continue
		}
		request, allowed := r.amountOf(&quantity), r.allowedForContainers(constraints.LimitRanges)
		if requestsOnly || current.limit == 0 {
			r.set(&size.Requests, r.requestWithSameLimit(current, request, allowed))
			continue
		}
		sized := r.scale(current, request, r.highestLimit(policy, constraints), allowed)
		r.set(&size.Requests, sized.request)
		if sized.limit > 0 {
			r.set(&size.Limits, sized.limit)
		}
	}
	return size
}

// controls reports whether a policy sizes a resource. Without a policy, all resources are sized.
func controls(policy *autoscalingv1beta1.ContainerPolicy, name corev1.ResourceName) bool {
	return policy == nil || len(policy.ControlledResources) == 0 ||
		slices.Contains(policy.ControlledResources, autoscalingv1beta1.ControlledResource(name))
}

// requestWithSameLimit returns the allowed request that is closest to the desired one if the
// template's limit stays the same.
func (r sizedResource) requestWithSameLimit(template pair, request int64, allowed allowedAmounts) int64 {
	request = allowed.clamp(request)
	if template.limit == 0 {
		return request
	}
	if allowed.maxRatio > 0 {
		request = max(request, int64(math.Ceil(float64(template.limit)/allowed.maxRatio)))
	}
	return min(request, max(r.highestRequest(template, template.limit), template.request))
}

// scale changes the request, and the limit with it, as far as both are allowed. The template has a
// limit.
func (r sizedResource) scale(template pair, request, highestLimit int64, allowed allowedAmounts) pair {
	request = allowed.clamp(request)
	limit := allowed.clamp(r.limitFor(template, request, highestLimit))
	request = min(request, max(r.highestRequest(template, limit), min(allowed.Min, limit)))
	if allowed.maxRatio > 0 {
		limit = max(request, min(limit, int64(float64(request)*allowed.maxRatio)))
	}
	return pair{request, limit}
}

// highestRequest returns the highest request that a limit allows. If the template's limit is above its
// request, it stays so. Otherwise, the QoS class of the pod could change, and with it back and forth.
func (r sizedResource) highestRequest(template pair, limit int64) int64 {
	if template.limit > template.request && limit > r.limitStep {
		return limit - r.limitStep
	}
	return limit
}

// maxAmount is the greatest amount that this package computes: 1 EiB, or about 10^15 cores.
const maxAmount = 1 << 60

// multiplyDivide returns amount * factor / divisor, rounded up, but at most maxAmount. The
// product can need more than 64 bits. So can the quotient if the divisor is small.
func multiplyDivide(amount, factor, divisor int64) int64 {
	high, low := bits.Mul64(uint64(amount), uint64(factor))
	low, carry := bits.Add64(low, uint64(divisor-1), 0)
	if high += carry; high >= uint64(divisor) {
		return maxAmount
	}
	quotient, _ := bits.Div64(high, low, uint64(divisor))
	return int64(min(quotient, maxAmount))
}
