package verticalscaler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// restoreUnschedulable resizes unschedulable pods that are larger than new pods to the size of new
// pods, so that they need not be replaced.
func (r *resizer) restoreUnschedulable(ctx context.Context, s *scope) {
	if len(s.status.Sizing) == 0 && !s.hasFallback() {
		return // The scaler does not size new pods.
	}
	r.restoreAll(ctx, s, s.unschedulableByUs(), func(pod *corev1.Pod) sizing.Plan {
		return s.planUnschedulable(pod, s.status.Sizing)
	})
}

// restoreAll resizes pods by their plans.
func (r *resizer) restoreAll(ctx context.Context, s *scope, restored []*corev1.Pod, planOf func(*corev1.Pod) sizing.Plan) {
	requested := s.result.requested
	r.resizeAll(ctx, s, restored, func(pod *corev1.Pod) (sizing.Plan, bool) { return planOf(pod), false })
	if s.result.requested > requested {
		r.recordResized(s, "the size of new pods")
	}
}

// resizeToTemplate resizes running pods during a fallback. They give back what they have above their
// template if a quota refuses new pods even at this size. They get up to what the template requests
// if they need more than they have: without a size, they would have that. Otherwise, they keep their
// size.
func (r *resizer) resizeToTemplate(ctx context.Context, s *scope) {
	given, resources, requeueAfter := s.toGiveBack()
	s.result.requeueIn(requeueAfter)
	sizes := s.newDueSizes(s.sizesUpToTemplate())
	r.restoreAll(ctx, s, s.runningPods(), func(pod *corev1.Pod) sizing.Plan {
		if slices.Contains(given, pod) {
			if plan := s.planRestore(pod, nil, resources); len(plan.Containers) > 0 {
				return plan
			}
		}
		due, _ := sizes.of(pod)
		return sizing.PlanRaise(pod, due)
	})
}

// sizesUpToTemplate returns the recommended sizes without what exceeds the template. They are empty if
// running pods are not to be resized.
func (s *scope) sizesUpToTemplate() []autoscalingv1beta1.ContainerSizing {
	if s.scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeInitial {
		return nil
	}
	template, ranges := &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges
	sizes := sizing.NoMoreThan(template, s.recommendedSizing, sizing.OfTemplate(template, ranges), ranges, sizing.AllResources())
	sizing.SetTemplateLimits(sizes, template, ranges)
	return sizes
}

// toGiveBack returns the running pods that give back what they have above their template, and the
// resources that they give back. requeueAfter is the time until there are more.
//
// At first, as many pods give back as new pods are missing. Their number doubles with each grace
// period in which the quota still refuses new pods: others can have used what was given back. After
// all pods, the other resource follows, because the refusal names only what was exceeded at first.
func (s *scope) toGiveBack() (given []*corev1.Pod, resources []corev1.ResourceName, requeueAfter time.Duration) {
	refused := s.creationRefusal()
	if !s.lowersRunningPods() || refused == nil || !s.isRefusedAtTemplate() {
		return nil, nil, 0
	}
	if resources = refusedResources(refused.message); len(resources) == 0 {
		return nil, nil, 0
	}
	given = s.runningPods()
	refusedFor := -s.retryTime(refused, s.status.Fallback)
	requeueAfter = refusalGracePeriod - refusedFor%refusalGracePeriod
	count := max(1, int(ptr.Deref(s.deployment.Spec.Replicas, 1))-len(s.pods))
	for range refusedFor / refusalGracePeriod {
		if count >= len(given) {
			return given, sizing.AllResources(), 0
		}
		count *= 2
	}
	return given[:min(count, len(given))], resources, requeueAfter
}

// lowersRunningPods reports whether the spec allows the controller to make running pods smaller.
func (s *scope) lowersRunningPods() bool {
	behavior := s.scaler.Spec.Behavior
	return s.scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeInitial &&
		(behavior == nil || behavior.ScaleDown == nil ||
			behavior.ScaleDown.SelectPolicy != autoscalingv1beta1.SelectPolicyDisabled)
}
