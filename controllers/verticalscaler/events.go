package verticalscaler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// readyWarnings are the reasons of Ready whose event is a Warning.
var readyWarnings = []string{
	autoscalingv1beta1.ReasonConflicted,
	autoscalingv1beta1.ReasonHistoryDamaged,
	autoscalingv1beta1.ReasonMetricsUnavailable,
	autoscalingv1beta1.ReasonObserveFailed,
	autoscalingv1beta1.ReasonPastUsageRefused,
	autoscalingv1beta1.ReasonRecommendFailed,
	autoscalingv1beta1.ReasonSpecInvalid,
}

// refusals are the reasons of Applied with which pods do not get their size until a user or a
// node acts. Each is a Warning event and is counted.
var refusals = []string{
	autoscalingv1beta1.ReasonAdmissionPolicyMissing,
	autoscalingv1beta1.ReasonApplyFailed,
	autoscalingv1beta1.ReasonCreationRefused,
	autoscalingv1beta1.ReasonDeploymentPaused,
	autoscalingv1beta1.ReasonMemoryInUse,
	autoscalingv1beta1.ReasonNoNodeFits,
	autoscalingv1beta1.ReasonPodLevelResources,
	autoscalingv1beta1.ReasonQoSClassFixed,
	autoscalingv1beta1.ReasonQuotaExceeded,
	autoscalingv1beta1.ReasonResizeDeferred,
	autoscalingv1beta1.ReasonResizeFailed,
	autoscalingv1beta1.ReasonResizeInfeasible,
	autoscalingv1beta1.ReasonResizeRefused,
	autoscalingv1beta1.ReasonResizeStalled,
	autoscalingv1beta1.ReasonResizeUnsupported,
	autoscalingv1beta1.ReasonReverted,
	autoscalingv1beta1.ReasonRolloutAnnotationOwned,
	autoscalingv1beta1.ReasonRolloutIneffective,
	autoscalingv1beta1.ReasonRolloutNeedsOutage,
	autoscalingv1beta1.ReasonSizeNotTaken,
	autoscalingv1beta1.ReasonSizeTableFailed,
	autoscalingv1beta1.ReasonSizeTableFull,
	autoscalingv1beta1.ReasonUnschedulable,
}

// recordTransitions records events for the reasons that have changed in a status that was
// written.
func (r *Reconciler) recordTransitions(s *scope) {
	// NoSamples is no event: a new pod has samples within two minutes.
	if ready, isNew := s.transition(autoscalingv1beta1.ConditionReady); isNew && ready.Reason != autoscalingv1beta1.ReasonNoSamples {
		eventType := corev1.EventTypeNormal
		if slices.Contains(readyWarnings, ready.Reason) {
			eventType = corev1.EventTypeWarning
		}
		r.recorder.Eventf(s.scaler, nil, eventType, ready.Reason, "Recommend", "%s", ready.Message)
	}
	if applied, isNew := s.transition(autoscalingv1beta1.ConditionApplied); isNew && slices.Contains(refusals, applied.Reason) {
		r.recorder.Eventf(s.scaler, nil, corev1.EventTypeWarning, applied.Reason, "Apply", "%s", applied.Message)
		r.metrics.refusals.WithLabelValues(applied.Reason).Inc()
	}
}

// transition returns a condition and whether its reason has changed.
func (s *scope) transition(conditionType string) (condition *metav1.Condition, isNew bool) {
	previous := meta.FindStatusCondition(s.scaler.Status.Conditions, conditionType)
	condition = meta.FindStatusCondition(s.status.Conditions, conditionType)
	return condition, previous == nil || previous.Reason != condition.Reason
}
