package verticalscaler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// fallbackMessage describes what to do about the fallback in force, and when it ends.
func (s *scope) fallbackMessage() string {
	fallback, runningPods := s.status.Fallback, "running pods keep their size"
	if s.isRefusedAtTemplate() && s.isInTable() {
		switch isQuota := fallback.Reason == autoscalingv1beta1.ReasonQuotaExceeded; {
		case !isQuota || !s.hasExcess():
			return fmt.Sprintf("The API server refuses new pods with the Deployment's own resources too, so their size is not the cause. "+
				"The ReplicaSet reports only the first refusal (%s), its events contain the last one. Until pods can be created, %s, "+
				"and running pods keep their size.", fallback.Message, newPodsGet(fallback))
		case s.lowersRunningPods():
			runningPods = "running pods give back what they have above the template"
		}
	}
	return fmt.Sprintf("%s (%s). Until %s, %s, and %s. Then, or when spec changes, the controller tries the recommended size again.",
		obstacleAdvice(fallback.Reason), fallback.Message, fallback.Until.UTC().Format(time.RFC3339), newPodsGet(fallback), runningPods)
}

// hasExcess reports whether a running pod has more than its template.
func (s *scope) hasExcess() bool {
	return slices.ContainsFunc(s.runningPods(), func(pod *corev1.Pod) bool {
		return len(s.planRestore(pod, nil, sizing.AllResources()).Containers) > 0
	})
}

// newPodsGet describes the size of new pods during a fallback.
func newPodsGet(fallback *autoscalingv1beta1.Fallback) string {
	most := "the Deployment's template"
	switch {
	case fallback.Size == autoscalingv1beta1.FallbackLastKnownGood:
		most = "the last known good size"
	case fallback.Reason == autoscalingv1beta1.ReasonCreationRefused:
		return "new pods get the Deployment's own resources"
	}
	if resources := loweredBy(fallback); len(resources) == 1 {
		what := map[corev1.ResourceName]string{corev1.ResourceCPU: "CPU", corev1.ResourceMemory: "memory"}[resources[0]]
		return fmt.Sprintf("new pods get no more %s than %s", what, most)
	}
	return "new pods get no more than " + most
}

// obstacleAdvice describes what to do about an obstacle.
func obstacleAdvice(reason string) string {
	switch reason {
	case autoscalingv1beta1.ReasonQuotaExceeded:
		return "A ResourceQuota refuses new pods at their size: raise the quota or lower maxAllowed"
	case autoscalingv1beta1.ReasonCreationRefused:
		return "The API server refuses new pods at their size: change what refuses them or lower maxAllowed"
	default:
		return "No node has room for new pods at their size: add nodes or lower maxAllowed"
	}
}

// pinnedObstacle returns why pods with a pinned size cannot be created or scheduled, and what
// to do, or "" if they can.
func (s *scope) pinnedObstacle() (reason, message string) {
	if !s.isPinned() || s.deployment == nil {
		return "", ""
	}
	found, _ := s.obstacle(nil)
	if found.reason == "" || !s.hasEffect(&autoscalingv1beta1.Fallback{Reason: found.reason, Message: found.message}, s.status.Sizing) {
		return "", ""
	}
	return found.reason, fmt.Sprintf("%s, or remove the annotation %s, which pins the size (%s).",
		obstacleAdvice(found.reason), autoscalingv1beta1.AnnotationPin, found.message)
}
