package verticalscaler

import (
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// getsRequest reports whether the admission policy gives a container the request of its size. own are
// the resources with which the container is created. The condition is that of the policy
// (deploy/admission/sizing.yaml).
func getsRequest(own corev1.ResourceRequirements, size autoscalingv1beta1.ContainerSize, name corev1.ResourceName) bool {
	request, ownRequest := size.Requests[name], own.Requests[name]
	ownLimit, isLimited := own.Limits[name]
	limit, hasLimit := size.Limits[name]
	switch templateLimit := size.TemplateLimits[name]; {
	case !isLimited:
		return true
	case !hasLimit:
		return request.Cmp(ownLimit) <= 0
	case ownLimit.Cmp(templateLimit) == 0 && (ownRequest.Cmp(ownLimit) == 0) == (request.Cmp(limit) == 0):
		return request.Cmp(limit) <= 0
	default: // The container is of another template.
		return ownRequest.Cmp(ownLimit) != 0 && request.Cmp(ownLimit) < 0
	}
}
