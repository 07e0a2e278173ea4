package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// refusals are the reasons of Applied for which pods do not get their size until somebody, or a
// node, does something about it. Each becomes an event, and is counted.
var refusals = []string{
	autoscalingv1beta1.ReasonAdmissionPolicyMissing,
	autoscalingv1beta1.ReasonDeploymentPaused,
	autoscalingv1beta1.ReasonPodLevelResources,
	autoscalingv1beta1.ReasonQoSClassFixed,
	autoscalingv1beta1.ReasonQuotaExceeded,
	autoscalingv1beta1.ReasonResizeDeferred,
	autoscalingv1beta1.ReasonResizeFailed,
	autoscalingv1beta1.ReasonResizeInfeasible,
	autoscalingv1beta1.ReasonResizeRefused,
	autoscalingv1beta1.ReasonResizeUnsupported,
	autoscalingv1beta1.ReasonRolloutNeedsOutage,
	autoscalingv1beta1.ReasonUnschedulable,
}

// tellTransitions records events of what is new in a status that has been written.
func (r *VerticalScalerReconciler) tellTransitions(
	scaler *autoscalingv1beta1.VerticalScaler, status autoscalingv1beta1.VerticalScalerStatus,
) {
	// That nothing is known yet of a new pod is no event: something will be in a minute.
	if ready, isNew := transition(scaler, status, autoscalingv1beta1.ConditionReady); isNew &&
		ready.Reason != autoscalingv1beta1.ReasonNoSamples {
		eventType := corev1.EventTypeNormal
		if ready.Reason == autoscalingv1beta1.ReasonConflicted || ready.Reason == autoscalingv1beta1.ReasonMetricsUnavailable {
			eventType = corev1.EventTypeWarning
		}
		r.recorder.Eventf(scaler, nil, eventType, ready.Reason, "Recommend", "%s", ready.Message)
	}
	if applied, isNew := transition(scaler, status, autoscalingv1beta1.ConditionApplied); isNew &&
		slices.Contains(refusals, applied.Reason) {
		r.recorder.Eventf(scaler, nil, corev1.EventTypeWarning, applied.Reason, "Apply", "%s", applied.Message)
		r.resizer.metrics.refusals.WithLabelValues(applied.Reason).Inc()
	}
}

// transition returns a condition as it is now, and whether its reason was another before.
func transition(
	scaler *autoscalingv1beta1.VerticalScaler, status autoscalingv1beta1.VerticalScalerStatus, conditionType string,
) (now *metav1.Condition, isNew bool) {
	before := meta.FindStatusCondition(scaler.Status.Conditions, conditionType)
	now = meta.FindStatusCondition(status.Conditions, conditionType)
	return now, before == nil || before.Reason != now.Reason
}
