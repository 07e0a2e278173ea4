package sizing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// Restore describes how pods give back what they have above the size of a new pod. Only what the
// scaler controls changes: another size is somebody else's.
type Restore struct {
	Spec     *autoscalingv1beta1.VerticalScalerSpec
	Template *corev1.PodSpec
	// Sizes are the sizes of a new pod. Without them, it has the template's own resources.
	Sizes       []autoscalingv1beta1.ContainerSizing
	Constraints Constraints
	// Resources are the resources that are given back.
	Resources []corev1.ResourceName
}

// PlanRestore plans how a pod gets down to the size of a new pod.
func PlanRestore(pod *corev1.Pod, restore Restore) Plan {
	if len(restore.Resources) == 0 {
		return Plan{}
	}
	return planOf(pod, restore.restored(pod))
}

// restored returns the containers of a pod that have more than those of a new pod, with the new
// pod's resources. Ordinary init containers are skipped because they cannot be resized.
func (restore Restore) restored(pod *corev1.Pod) []corev1.Container {
	planned := newLimitedPod(restore.Template, restore.Constraints.LimitRanges).withSizes(restore.Sizes)
	var changed []corev1.Container
	for _, container := range pods.Sizable(&pod.Spec) {
		plannedContainer := containerOf(planned, container.Name)
		if plannedContainer == nil {
			continue
		}
		resources := *container.Resources.DeepCopy()
		for _, r := range named(restore.Resources) {
			if IsSized(restore.Spec, container.Name, r.name) {
				restored := restore.lowered(r, pod, &container, r.pairIn(plannedContainer.Resources))
				r.setPair(&resources, restored)
			}
		}
		if !isEqual(resources, container.Resources) {
			container.Resources = resources
			changed = append(changed, container)
		}
	}
	return changed
}

// lowered returns the request and the limit of a container's resource without what exceeds those
// of a new pod. In a Guaranteed pod, the limit stays equal to the request.
//
// A resize cannot remove a request that a new pod lacks. The container's share of the pod minimum
// remains of it, because no recommendation is smaller.
func (restore Restore) lowered(r sizedResource, pod *corev1.Pod, container *corev1.Container, planned pair) pair {
	current := r.rawPairIn(container.Resources)
	requestsOnly := false
	if policy := policyOf(restore.Spec, container.Name); policy != nil {
		requestsOnly = policy.ControlledValues == autoscalingv1beta1.ControlledValuesRequestsOnly
	}
	isGuaranteed := pod.Status.QOSClass == corev1.PodQOSGuaranteed
	exceedsLimit := planned.limit > 0 && current.limit > planned.limit && !requestsOnly
	if current.request <= planned.request && !exceedsLimit || requestsOnly && isGuaranteed {
		return current
	}
	if planned.request == 0 {
		planned.request = restore.podMinimum(r, container.Name)
	}
	lowered := pair{request: min(current.request, planned.request), limit: current.limit}
	if exceedsLimit {
		lowered.limit = max(planned.limit, lowered.request)
	}
	if isGuaranteed {
		lowered.limit = lowered.request
	}
	return lowered
}

// podMinimum returns a container's share of the pod minimum. If there is no pod minimum, it is the
// share of the default.
func (restore Restore) podMinimum(r sizedResource, container string) int64 {
	containers := len(pods.Sizable(restore.Template))
	for _, spec := range []*autoscalingv1beta1.VerticalScalerSpec{restore.Spec, {}} {
		policy := Policy(spec, container, containers, restore.Constraints)
		minimum := policy.CPU.PodMinimum
		if r.name == memory.name {
			minimum = policy.Memory.PodMinimum
		}
		if minimum > 0 {
			return minimum
		}
	}
	return 0
}

// setPair sets the request and the limit of the resource, as far as they are above 0.
func (r sizedResource) setPair(resources *corev1.ResourceRequirements, amounts pair) {
	if amounts.request > 0 {
		r.set(&resources.Requests, amounts.request)
	}
	if amounts.limit > 0 {
		r.set(&resources.Limits, amounts.limit)
	}
}

// PodAfter returns a copy of a pod with the resources of a plan.
func (plan Plan) PodAfter(pod *corev1.Pod) *corev1.Pod {
	after := pod.DeepCopy()
	for _, container := range containersOf(&after.Spec) {
		i := slices.IndexFunc(plan.Containers, func(changed corev1.Container) bool { return changed.Name == container.Name })
		if i >= 0 {
			container.Resources = plan.Containers[i].Resources
		}
	}
	return after
}
