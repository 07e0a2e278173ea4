package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// NextStep returns the containers of a resize with the resources of its next step, and whether
// the step lowers memory limits. The kubelet checks that lower limits are above the memory in
// use, page cache included, and otherwise aborts the whole resize. So memory limits are lowered
// last and alone.
func NextStep(pod *corev1.Pod, changed []corev1.Container) (step []corev1.Container, lowersMemory bool) {
	for i := range changed {
		current := containerOf(&pod.Spec, changed[i].Name)
		if !lowersMemoryLimit(pod, current, changed[i].Resources) {
			step = append(step, changed[i])
			continue
		}
		lowersMemory = true
		first := changed[i]
		first.Resources = memory.with(changed[i].Resources, pair{
			request: max(memory.amountIn(current.Resources.Requests), memory.amountIn(changed[i].Resources.Requests)),
			limit:   memory.amountIn(current.Resources.Limits),
		})
		if !isEqual(first.Resources, current.Resources) {
			step = append(step, first)
		}
	}
	if len(step) == 0 || !keepsQoSClass(pod, step) {
		return changed, lowersMemory
	}
	return step, false
}

// Part returns the part of a step that changes one resource. It is empty if the part changes
// nothing or would change the pod's quality of service class.
func Part(pod *corev1.Pod, step []corev1.Container, name corev1.ResourceName) []corev1.Container {
	var part []corev1.Container
	for _, container := range step {
		current := containerOf(&pod.Spec, container.Name)
		for _, r := range sizedResources {
			if r.name != name {
				container.Resources = r.with(container.Resources, r.rawPairIn(current.Resources))
			}
		}
		if !isEqual(container.Resources, current.Resources) {
			part = append(part, container)
		}
	}
	if !keepsQoSClass(pod, part) {
		return nil
	}
	return part
}

// Lowered returns the part of a resize that lowers memory limits. It is empty if there is none, or if
// the part alone would change the pod's quality of service class.
func Lowered(pod *corev1.Pod, changed []corev1.Container) []corev1.Container {
	return Part(pod, slices.DeleteFunc(slices.Clone(changed), func(c corev1.Container) bool {
		return !lowersMemoryLimit(pod, containerOf(&pod.Spec, c.Name), c.Resources)
	}), corev1.ResourceMemory)
}

// LowersMemory reports whether a resize in progress lowers the memory limit of a container.
func LowersMemory(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(container corev1.Container) bool {
		actual := inForce(pod, &container)
		return actual != nil && isLowerLimit(container.Resources, *actual)
	})
}

// KeepMemory returns a resize without what lowers memory limits below those in force, and
// whether there was any. With putBack, it also undoes the part of the pod's spec that does. A
// request is raised nevertheless. isSized reports whether the memory of a container is sized at all.
func KeepMemory(
	pod *corev1.Pod, changed []corev1.Container, putBack bool, isSized func(container string) bool,
) (kept []corev1.Container, keeps bool) {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		current := container.Resources
		i := slices.IndexFunc(changed, func(c corev1.Container) bool { return c.Name == container.Name })
		if i >= 0 {
			container = changed[i]
		}
		actual := inForce(pod, &container)
		if (i >= 0 || putBack) && actual != nil && isLowerLimit(container.Resources, *actual) && isSized(container.Name) &&
			!removesMemoryLimit(current, *actual) {
			keeps = true
			previous := memory.rawPairIn(*actual)
			previous.request = max(previous.request, memory.amountIn(container.Resources.Requests))
			container.Resources = memory.with(container.Resources, previous)
		}
		if !isEqual(container.Resources, current) {
			kept = append(kept, container)
		}
	}
	return kept, keeps
}

// removesMemoryLimit reports whether the memory limit of a container would have to be removed to get
// back to previous resources. A resize cannot do that.
func removesMemoryLimit(resources, previous corev1.ResourceRequirements) bool {
	return memory.amountIn(resources.Limits) > 0 && memory.amountIn(previous.Limits) == 0
}

// IsSized reports whether the container policies of a scaler size a resource of a container.
func IsSized(spec *autoscalingv1beta1.VerticalScalerSpec, container string, name corev1.ResourceName) bool {
	policy := policyOf(spec, container)
	return controls(policy, name) && (policy == nil || policy.Mode != autoscalingv1beta1.ContainerModeOff)
}

// lowersMemoryLimit reports whether other resources lower the memory limit of a container without
// a restart.
func lowersMemoryLimit(pod *corev1.Pod, container *corev1.Container, resources corev1.ResourceRequirements) bool {
	return isLowerLimit(resources, container.Resources) && isRunning(statusOf(pod, container.Name)) &&
		!hasRestartPolicy(container, corev1.ResourceMemory)
}

// isLowerLimit reports whether a memory limit is lower than another, or the first one.
func isLowerLimit(resources, than corev1.ResourceRequirements) bool {
	limit, previous := memory.amountIn(resources.Limits), memory.amountIn(than.Limits)
	return limit > 0 && (previous == 0 || limit < previous)
}

// with returns resources with another request and limit of a resource.
func (r sizedResource) with(resources corev1.ResourceRequirements, amounts pair) corev1.ResourceRequirements {
	resources = *resources.DeepCopy()
	delete(resources.Requests, r.name)
	delete(resources.Limits, r.name)
	r.setPair(&resources, amounts)
	return resources
}

// rawPairIn returns the request and the limit of the resource as they are set.
func (r sizedResource) rawPairIn(resources corev1.ResourceRequirements) pair {
	return pair{request: r.amountIn(resources.Requests), limit: r.amountIn(resources.Limits)}
}
