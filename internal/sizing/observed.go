package sizing

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// Least returns the least that any of the pods has of each resource, by container. What a pod has
// is the less of what its spec says and of what the kubelet reports: a raise counts when it is in
// force, and a lowered size when it is requested.
func Least(all []*corev1.Pod) []autoscalingv1beta1.ContainerSizing {
	if len(all) == 0 {
		return nil
	}
	var sizes []autoscalingv1beta1.ContainerSizing
	for container := range pods.EachSizable(&all[0].Spec) {
		size := autoscalingv1beta1.ContainerSizing{ContainerName: container.Name}
		lowerTo(&size, &container.Resources, true)
		sizes = append(sizes, size)
	}
	previous := make([]listAddresses, len(sizes)) // Most pods have the same lists as the one before.
	for _, pod := range all {
		for i := range sizes {
			container := pods.SizableNamed(&pod.Spec, sizes[i].ContainerName)
			if container == nil {
				continue
			}
			inForce := &container.Resources
			if status := statusOf(pod, container.Name); status != nil && status.Resources != nil {
				inForce = status.Resources
			}
			addresses := addressesOf(&container.Resources, inForce)
			if addresses != previous[i] {
				lowerTo(&sizes[i], &container.Resources, false)
				lowerTo(&sizes[i], inForce, false)
				previous[i] = addresses
			}
		}
	}
	return withoutEmpty(sizes)
}

// listAddresses are the addresses of a container's requests and limits, and of those in force. The
// cache stores equal lists once, so equal addresses mean equal lists.
type listAddresses [4]uintptr

func addressesOf(resources, inForce *corev1.ResourceRequirements) listAddresses {
	return listAddresses{
		AddressOf(resources.Requests), AddressOf(resources.Limits), AddressOf(inForce.Requests), AddressOf(inForce.Limits),
	}
}

// AddressOf returns the address of a resource list, or 0 if it is nil.
func AddressOf(list corev1.ResourceList) uintptr { return reflect.ValueOf(list).Pointer() }

// lowerTo lowers a size to resources. The first resources set it.
func lowerTo(size *autoscalingv1beta1.ContainerSizing, resources *corev1.ResourceRequirements, isFirst bool) {
	for _, r := range sizedResources {
		r.lowerAmount(&size.Requests, resources.Requests, isFirst)
		r.lowerAmount(&size.Limits, resources.Limits, isFirst)
	}
}

// lowerAmount lowers the amount of the resource to that of another list. The first list sets it. A list
// without the resource removes it.
func (r sizedResource) lowerAmount(amounts *corev1.ResourceList, to corev1.ResourceList, isFirst bool) {
	amount, isSet := to[r.name]
	current, wasSet := (*amounts)[r.name]
	switch {
	case isFirst && isSet, wasSet && isSet && amount.Cmp(current) < 0:
		r.set(amounts, r.amountOf(&amount))
	case !isSet:
		delete(*amounts, r.name)
	}
}

// loweredPercent is how much less a size must request to count as lowered. New pods follow the
// recommendation exactly, and a pod does not do worse because of its last percent.
const loweredPercent = 10

// IsLowered reports whether sizes request clearly less of any resource that a scaler sizes than
// previous sizes do. Other resources are lowered by somebody else.
func IsLowered(spec *autoscalingv1beta1.VerticalScalerSpec, sizes, previous []autoscalingv1beta1.ContainerSizing) bool {
	return slices.ContainsFunc(sizes, func(size autoscalingv1beta1.ContainerSizing) bool {
		before := SizeOf(previous, size.ContainerName)
		return before != nil && slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool {
			_, isSet := size.Requests[r.name]
			return isSet && IsSized(spec, size.ContainerName, r.name) && r.amountIn(size.Requests)*100 < r.amountIn(before.Requests)*(100-loweredPercent)
		})
	})
}

// SizeOf returns the size of a container, or nil.
func SizeOf(sizes []autoscalingv1beta1.ContainerSizing, container string) *autoscalingv1beta1.ContainerSizing {
	for i := range sizes {
		if sizes[i].ContainerName == container {
			return &sizes[i]
		}
	}
	return nil
}

// OfTemplate returns the resources of a Deployment's template as sizes, with the defaults that
// LimitRanges add.
func OfTemplate(template *corev1.PodSpec, ranges []corev1.LimitRange) []autoscalingv1beta1.ContainerSizing {
	planned := newLimitedPod(template, ranges)
	var sizes []autoscalingv1beta1.ContainerSizing
	for _, container := range pods.Sizable(&planned.spec) {
		sizes = append(sizes, autoscalingv1beta1.ContainerSizing{
			ContainerName: container.Name, Requests: container.Resources.Requests, Limits: container.Resources.Limits,
		})
	}
	return sizes
}

// RaiseTargets raises the targets of a container to previous requests, as far as the scaler's
// policy for the container allows. Resources without a target stay without.
func RaiseTargets(
	spec *autoscalingv1beta1.VerticalScalerSpec, container string, targets, previous corev1.ResourceList,
) {
	policy := policyOf(spec, container)
	for _, r := range sizedResources {
		target, hasTarget := targets[r.name]
		if !hasTarget {
			continue
		}
		least := r.amountIn(previous)
		if policy != nil && policy.MaxAllowed != nil {
			if most := r.amountAllowed(policy.MaxAllowed); most > 0 {
				least = min(least, most)
			}
		}
		if least > r.amountOf(&target) {
			targets[r.name] = *r.quantity(least)
		}
	}
}

// AddRaises adds each request of a size with which a container gets more to the size that is due.
func AddRaises(due *autoscalingv1beta1.ContainerSizing, container *corev1.Container, size *autoscalingv1beta1.ContainerSizing) {
	for _, r := range sizedResources {
		if r.amountIn(size.Requests) > r.amountIn(container.Resources.Requests) {
			r.copyAmount(&due.Requests, size.Requests)
		}
	}
}
