package sizing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// sizedResource is a resource that this package sizes: CPU in milli-CPU, or memory in bytes.
type sizedResource struct {
	name corev1.ResourceName
	// limitStep is the unit of limits: they are rounded up to a multiple of it.
	limitStep int64
}

var (
	cpu    = sizedResource{name: corev1.ResourceCPU, limitStep: 1}
	memory = sizedResource{name: corev1.ResourceMemory, limitStep: 1 << 20}

	sizedResources = [...]sizedResource{cpu, memory}
)

// amountOf converts a quantity to milli-CPU or bytes.
func (r sizedResource) amountOf(quantity *resource.Quantity) int64 {
	if r.name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// quantity converts milli-CPU or bytes to a quantity.
func (r sizedResource) quantity(amount int64) *resource.Quantity {
	if r.name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	return resource.NewQuantity(amount, resource.BinarySI)
}

// amountIn returns the amount of the resource in a list, or 0 if the list lacks the resource.
func (r sizedResource) amountIn(list corev1.ResourceList) int64 {
	quantity := list[r.name]
	return r.amountOf(&quantity)
}

// set sets the amount of the resource in a list.
func (r sizedResource) set(list *corev1.ResourceList, amount int64) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[r.name] = *r.quantity(amount)
}

// copyAmount copies the amount of the resource to another list, if there is one.
func (r sizedResource) copyAmount(to *corev1.ResourceList, from corev1.ResourceList) {
	if quantity, isSet := from[r.name]; isSet {
		r.set(to, r.amountOf(&quantity))
	}
}

// removeFrom removes the resource from a size.
func (r sizedResource) removeFrom(size *autoscalingv1beta1.ContainerSizing) {
	delete(size.Requests, r.name)
	delete(size.Limits, r.name)
}

// isEqual reports whether the request and the limit of the resource are the same in both.
func (r sizedResource) isEqual(a, b corev1.ResourceRequirements) bool {
	return r.amountIn(a.Requests) == r.amountIn(b.Requests) && r.amountIn(a.Limits) == r.amountIn(b.Limits)
}

// pair is the request and the limit of one resource of a container. 0 means that it is not set.
type pair struct {
	request, limit int64
}

// pairIn returns the request and the limit of the resource. If only the limit is set, it is
// the request too, as in the API server.
func (r sizedResource) pairIn(resources corev1.ResourceRequirements) pair {
	p := pair{request: r.amountIn(resources.Requests), limit: r.amountIn(resources.Limits)}
	if _, isSet := resources.Requests[r.name]; !isSet {
		p.request = p.limit
	}
	return p
}
