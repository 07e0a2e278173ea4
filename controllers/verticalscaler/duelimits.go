package verticalscaler

import (
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/sizing"
)

// recentPeakPercentile covers the peaks of memory that count before a limit is lowered. Those that
// it leaves out have a hundredth of the weight: with the default half-life, they are a week old.
const recentPeakPercentile = 0.99

// dueLimits adds the limits that a running container should get now to the requests that are due,
// and reports whether a limit waits until it can be lowered.
func (s *scope) dueLimits(
	container *corev1.Container, sizes []autoscalingv1beta1.ContainerSizing,
	size, due autoscalingv1beta1.ContainerSizing, targetRange sizing.TargetRange,
) (_ autoscalingv1beta1.ContainerSizing, isWaiting bool) {
	if len(size.Limits) == 0 || sizing.HasSize(container, size) {
		return due, false
	}
	limits := sizing.RunningLimits(&s.scaler.Spec, &s.deployment.Spec.Template.Spec, sizes,
		container.Name, sizing.SizedRequests(container, size, due), s.constraints)
	memoryPeak := func() int64 {
		const percentile = recentPeakPercentile
		policy := recommender.Policy{TargetPercentile: percentile, LowerPercentile: percentile, UpperPercentile: percentile}
		return s.workload.Recommend(container.Name, policy).Memory.UncappedTarget
	}
	return sizing.DueLimits(s.scaler.Spec.Behavior, container, due, limits, targetRange, memoryPeak)
}
