package verticalscaler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/sizing"
)

// recentPeakPercentile covers the peaks of memory that count before a limit is lowered. Those that
// it leaves out have a hundredth of the weight: with the default half-life, they are a week old.
const recentPeakPercentile = 0.99

// runningSizes are the sizes of running pods in one reconcile.
type runningSizes struct {
	scope *scope
	// sizes are the sizes of new pods, by container name, with limits for the present template.
	sizes map[string]autoscalingv1beta1.ContainerSizing
	// requests are those of the last pod whose limits were computed, and computed are its limits.
	// Most pods have the same requests.
	requests, computed map[string]corev1.ResourceList
}

func newRunningSizes(s *scope) *runningSizes {
	r := &runningSizes{
		scope: s, sizes: map[string]autoscalingv1beta1.ContainerSizing{},
		requests: map[string]corev1.ResourceList{}, computed: map[string]corev1.ResourceList{},
	}
	for _, size := range sizing.WithoutOtherLimits(s.status.Sizing, &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges) {
		r.sizes[size.ContainerName] = size
		r.requests[size.ContainerName], r.computed[size.ContainerName] = size.Requests, size.Limits
	}
	return r
}

// differs reports whether a container has a size but not its requests and limits.
func (r *runningSizes) differs(container corev1.Container) bool {
	size, isSized := r.sizes[container.Name]
	return isSized && !sizing.HasSize(&container, size)
}

// limits returns the limits that a pod's containers should have with requests. A pod whose requests
// are not those of new pods has the limits that a new pod would have with its requests.
func (r *runningSizes) limits(requests map[string]corev1.ResourceList) map[string]corev1.ResourceList {
	if maps.EqualFunc(requests, r.requests, sizing.EqualAmounts) {
		return r.computed
	}
	r.requests = requests
	r.computed = sizing.Limits(&r.scope.scaler.Spec, &r.scope.deployment.Spec.Template.Spec, requests, r.scope.constraints)
	for container, limits := range r.computed {
		maps.DeleteFunc(limits, func(name corev1.ResourceName, _ resource.Quantity) bool {
			_, isSized := r.sizes[container].Limits[name]
			return !isSized
		})
	}
	return r.computed
}

// memoryPeak returns a function that returns the recent peak of a container's memory, in bytes.
func (s *scope) memoryPeak(container string) func() int64 {
	return func() int64 {
		const percentile = recentPeakPercentile
		policy := recommender.Policy{TargetPercentile: percentile, LowerPercentile: percentile, UpperPercentile: percentile}
		return s.workload.Recommend(container, policy).Memory.UncappedTarget
	}
}
