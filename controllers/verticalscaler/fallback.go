package verticalscaler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

const (
	// fallbackTime is how long new pods get no more than their template after the recommended
	// size kept one from being created or scheduled. No event reports that there is room again:
	// the use of quotas and nodes changes all the time.
	fallbackTime = time.Hour
	// maxFallbackTime is the longest fallback. Each fallback that directly follows another is
	// twice as long, so that a Deployment is not rolled out in vain every hour.
	maxFallbackTime = 24 * time.Hour
	// schedulingGracePeriod is how long a pod may wait for a node that is large enough but full.
	// A cluster autoscaler usually adds one within this time.
	schedulingGracePeriod = 3 * time.Minute
	// quotaGracePeriod is how long a quota may refuse pods of the template's size before running
	// pods give back what they have above the template. The ReplicaSet controller retries
	// refused pods with backoff (pkg/controller/replicaset in k8s.io/kubernetes).
	quotaGracePeriod = 30 * time.Second
	// exceededQuota begins the API server's message when a ResourceQuota refuses an object
	// (pkg/admission/plugin/resourcequota in k8s.io/apiserver).
	exceededQuota = "exceeded quota"
)

// fallBack returns the sizes of new pods and the fallback that reduces them, if there is one. A
// new generation of the spec ends a fallback.
func (s *scope) fallBack(
	sizes []autoscalingv1beta1.ContainerSizing,
) ([]autoscalingv1beta1.ContainerSizing, *autoscalingv1beta1.Fallback) {
	reduced := s.noMoreThanTemplate(sizes)
	if equality.Semantic.DeepEqual(reduced, sizes) {
		return sizes, nil
	}
	previous := s.scaler.Status.Fallback
	if s.scaler.Status.ObservedGeneration != s.scaler.Generation {
		previous = nil
	}
	if isInForce(previous, s.now) {
		return reduced, previous
	}
	length := fallbackTime
	if previous != nil {
		lasted := previous.Until.Sub(previous.Since.Time)
		length = min(2*lasted, maxFallbackTime)
		if !s.now.Before(previous.Until.Add(lasted)) { // It ended too long ago to count.
			previous, length = nil, fallbackTime
		}
	}
	reason, message := s.obstacle()
	if reason == "" {
		return sizes, previous
	}
	since := metav1.NewTime(s.now).Rfc3339Copy()
	return reduced, &autoscalingv1beta1.Fallback{
		Reason: reason, Message: message, Since: since, Until: metav1.NewTime(since.Add(length)),
	}
}

// isInForce reports whether there is a fallback that has not ended.
func isInForce(fallback *autoscalingv1beta1.Fallback, now time.Time) bool {
	return fallback != nil && now.Before(fallback.Until.Time)
}

// noMoreThanTemplate returns the sizes without everything that exceeds the target's template.
func (s *scope) noMoreThanTemplate(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	return sizing.NoMoreThanTemplate(&s.deployment.Spec.Template.Spec, sizes, s.constraints.LimitRanges)
}

// obstacle returns why pods that are larger than the template cannot be created or scheduled,
// as a reason and a message, or "" if they can.
func (s *scope) obstacle() (reason, message string) {
	if refused := quotaRefusal(s.deployment); refused != "" {
		return autoscalingv1beta1.ReasonQuotaExceeded, refused
	}
	for _, pod := range s.unschedulableByUs() {
		if s.graceLeft(pod) <= 0 {
			return autoscalingv1beta1.ReasonUnschedulable, pods.UnschedulableCondition(pod).Message
		}
	}
	return "", ""
}

// quotaRefusal returns the message with which a ResourceQuota refuses a Deployment's pods, or "".
func quotaRefusal(d *appsv1.Deployment) string {
	for i := range d.Status.Conditions {
		condition := &d.Status.Conditions[i]
		if condition.Type != appsv1.DeploymentReplicaFailure || condition.Status != corev1.ConditionTrue {
			continue
		}
		// The text before it names one pod and differs with each pod.
		if _, detail, isQuota := strings.Cut(condition.Message, exceededQuota); isQuota {
			return exceededQuota + detail
		}
	}
	return ""
}

// isRefusedForSize reports whether a quota refused pods for their CPU or memory. If it counts
// pods, it refuses as many even if others shrink. (The message is that of the first refusal
// until a pod is created, so another quota may refuse them by now.)
func isRefusedForSize(refusal string) bool {
	_, requested, _ := strings.Cut(refusal, "requested: ")
	requested, _, _ = strings.Cut(requested, ", used: ")
	for amount := range strings.SplitSeq(requested, ",") {
		name, _, _ := strings.Cut(amount, "=")
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
			corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory:
			return true
		}
	}
	return false
}

// planRestore returns how a pod gets back to the size of the target's template.
func (s *scope) planRestore(pod *corev1.Pod) sizing.Plan {
	return sizing.PlanRestore(pod, &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges)
}

// unschedulableByUs returns the unschedulable pods that are larger than the target's template:
// at the template's size there may be a node for them.
func (s *scope) unschedulableByUs() []*corev1.Pod {
	if s.deployment == nil {
		return nil
	}
	return slices.DeleteFunc(pods.Unschedulable(s.pods), func(pod *corev1.Pod) bool {
		return len(s.planRestore(pod).Containers) == 0
	})
}

// graceLeft returns how much longer a pod may wait for a node; 0 if no node is large enough.
func (s *scope) graceLeft(pod *corev1.Pod) time.Duration {
	for name, amount := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		if most, isKnown := s.constraints.LargestNode[name]; !isKnown || amount.Cmp(most) > 0 {
			return 0
		}
	}
	return pods.UnschedulableCondition(pod).LastTransitionTime.Add(schedulingGracePeriod).Sub(s.now)
}

// schedulingGrace returns the time until the first grace period of a pod ends; 0 if no pod has
// one.
func (s *scope) schedulingGrace() time.Duration {
	first := time.Duration(0)
	for _, pod := range s.unschedulableByUs() {
		if left := s.graceLeft(pod); left > 0 && (first == 0 || left < first) {
			first = left
		}
	}
	return first
}

// fallbackMessage describes what to do about a fallback, and when it ends.
func fallbackMessage(fallback *autoscalingv1beta1.Fallback) string {
	return fmt.Sprintf("%s (%s). Until %s, new pods get no more than the Deployment's template, and running pods keep their size. "+
		"Then, or when spec changes, the controller tries the recommended size again.",
		obstacleAdvice(fallback.Reason), fallback.Message, fallback.Until.UTC().Format(time.RFC3339))
}

// obstacleAdvice describes what to do about an obstacle.
func obstacleAdvice(reason string) string {
	if reason == autoscalingv1beta1.ReasonQuotaExceeded {
		return "A ResourceQuota refuses new pods at their size: raise the quota or lower maxAllowed"
	}
	return "No node has room for new pods at their size: add nodes or lower maxAllowed"
}

// pinnedObstacle returns why pods with a pinned size cannot be created or scheduled, and what
// to do, or "" if they can.
func (s *scope) pinnedObstacle() (reason, message string) {
	if !s.isPinned() || s.deployment == nil ||
		equality.Semantic.DeepEqual(s.noMoreThanTemplate(s.status.Sizing), s.status.Sizing) {
		return "", ""
	}
	reason, detail := s.obstacle()
	if reason == "" {
		return "", ""
	}
	return reason, fmt.Sprintf("%s, or remove the annotation %s, which pins the size (%s).",
		obstacleAdvice(reason), autoscalingv1beta1.AnnotationPin, detail)
}
