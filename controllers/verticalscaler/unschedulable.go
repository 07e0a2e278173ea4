package verticalscaler

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// schedulingGracePeriod is how long a pod may wait for a node that is large enough but full. A
// cluster autoscaler usually adds one within this time.
const schedulingGracePeriod = 3 * time.Minute

// unschedulableMessage returns the scheduler's message for an unschedulable pod.
func unschedulableMessage(pod *corev1.Pod) string {
	return strings.Join(strings.Fields(pods.UnschedulableCondition(pod).Message), " ")
}

// unschedulableByUs returns the pods for which nodes lack CPU or memory, and which have more of
// that than their template: with the template's size there may be a node for them.
func (s *scope) unschedulableByUs() []*corev1.Pod {
	if s.deployment == nil {
		return nil
	}
	return slices.DeleteFunc(pods.Unschedulable(s.pods), func(pod *corev1.Pod) bool {
		return pod.Spec.Resources != nil || len(s.planUnschedulable(pod, nil).Containers) == 0
	})
}

// planUnschedulable returns how an unschedulable pod gets down to the sizes of a new pod. Only the
// resources that nodes lack change.
func (s *scope) planUnschedulable(pod *corev1.Pod, sizes []autoscalingv1beta1.ContainerSizing) sizing.Plan {
	return s.planRestore(pod, sizes, sizing.Insufficient(unschedulableMessage(pod)))
}

// planRestore returns how a pod gets down to the sizes of a new pod.
func (s *scope) planRestore(
	pod *corev1.Pod, sizes []autoscalingv1beta1.ContainerSizing, resources []corev1.ResourceName,
) sizing.Plan {
	return sizing.PlanRestore(pod, sizing.Restore{
		Spec: &s.scaler.Spec, Template: &s.deployment.Spec.Template.Spec, Sizes: sizes,
		Constraints: s.constraints, Resources: s.withoutHPA(resources),
	})
}

// graceLeft returns how much longer a pod may wait for a node, with the sizes of the fallback in
// force or without a fallback. It is 0 if only a smaller pod could be scheduled to a node.
func (s *scope) graceLeft(pod *corev1.Pod, inForce *autoscalingv1beta1.Fallback) time.Duration {
	begin := pods.UnschedulableCondition(pod).LastTransitionTime.Time
	switch smaller := s.planUnschedulable(pod, nil).PodAfter(pod); {
	case inForce != nil && inForce.Since.After(begin):
		begin = inForce.Since.Time
	case inForce != nil:
	case s.constraints.Nodes.IsEmpty(), !s.couldSchedule(pod) && s.couldSchedule(smaller):
		return 0
	}
	return begin.Add(schedulingGracePeriod).Sub(s.now)
}

// couldSchedule reports whether a node could hold a pod if it had room. It is true if no node is
// known.
func (s *scope) couldSchedule(pod *corev1.Pod) bool {
	requests := podresources.PodRequests(pod, podresources.PodResourcesOptions{})
	return s.constraints.Nodes.IsEmpty() || s.constraints.Nodes.Fits(&s.deployment.Spec.Template.Spec, requests)
}

// couldScheduleAny reports whether a node is large enough for one of the unschedulable pods if it
// gets sizes.
func (s *scope) couldScheduleAny(sizes []autoscalingv1beta1.ContainerSizing) bool {
	return slices.ContainsFunc(s.unschedulableByUs(), func(pod *corev1.Pod) bool {
		return s.couldSchedule(s.planUnschedulable(pod, sizes).PodAfter(pod))
	})
}
