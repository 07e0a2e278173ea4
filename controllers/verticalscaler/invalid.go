package verticalscaler

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// reportInvalid publishes that a scaler's spec cannot be decoded. The rest of the status stays, so
// new pods keep the size that they have got before. The watch delivers the corrected spec.
func (r *Reconciler) reportInvalid(ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler) (ctrl.Result, error) {
	s := &scope{now: time.Now(), scaler: scaler, status: *scaler.Status.DeepCopy()}
	s.status.ObservedGeneration = scaler.Generation
	message := "The spec is invalid, so the sizes of pods do not change. Correct the spec: " + scaler.Spec.DecodeError
	s.publishConditions(
		newCondition(autoscalingv1beta1.ConditionReady, metav1.ConditionFalse, autoscalingv1beta1.ReasonSpecInvalid, message),
		newCondition(autoscalingv1beta1.ConditionApplied, metav1.ConditionUnknown, autoscalingv1beta1.ReasonSpecInvalid, message),
	)
	return ctrl.Result{}, r.writeStatus(ctx, s)
}
