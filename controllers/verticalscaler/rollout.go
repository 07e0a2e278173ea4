package verticalscaler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// tableWait is the time after which to check again whether a size is in the table. A change of the
// table triggers no reconcile of the scalers, because most of them need none.
const tableWait = time.Second

// rollOut starts a rollout if pods cannot be resized in place and a rollout is possible now.
func (r *Reconciler) rollOut(ctx context.Context, s *scope) {
	count, reason := s.result.toReplace()
	if count == 0 || s.hasFailed() || !s.canSizeNewPods() ||
		s.scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeInPlaceOrRollout {
		return
	}
	if blocked, requeueAfter := sizing.RolloutBlocked(s.deployment, s.scaler.Spec.Behavior, s.now); blocked != "" {
		s.result.replaced(blocked, requeueAfter)
		return
	}
	if !s.isInTable() {
		// The size gets into the table after the status is written.
		s.result.replaced(autoscalingv1beta1.ReasonRolloutInProgress, tableWait)
		return
	}
	if err := r.restart(ctx, s, reason); err != nil {
		s.fail(autoscalingv1beta1.ReasonApplyFailed, "The rollout of the Deployment could not be started", err)
		return
	}
	s.result.replaced(autoscalingv1beta1.ReasonRolloutInProgress, 0)
}

// restart sets the restart annotation of the pod template, as kubectl rollout restart does. It
// is the only field that Upright writes in a Deployment that it does not own.
func (r *Reconciler) restart(ctx context.Context, s *scope, reason string) error {
	d := s.deployment
	configuration := appsv1ac.Deployment(d.Name, d.Namespace).
		WithUID(d.UID). // Not another Deployment of the same name.
		WithResourceVersion(d.ResourceVersion).
		WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().
			WithAnnotations(map[string]string{sizing.AnnotationRestartedAt: s.now.UTC().Format(time.RFC3339)})))
	err := r.uncached.Apply(ctx, configuration, r.fieldOwner, client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // The Deployment has changed. The event of that change triggers a reconcile.
	}
	if err != nil {
		return fmt.Errorf("roll out Deployment %s: %w", d.Name, err)
	}
	r.metrics.rollouts.WithLabelValues(reason).Inc()
	r.recorder.Eventf(s.scaler, nil, corev1.EventTypeNormal, "RolledOut", "RollOut",
		"Rolled out Deployment %q because its pods cannot be resized in place (%s). New pods get the size in status.sizing.",
		d.Name, reason)
	log.FromContext(ctx).Info("Rolled out a Deployment", "Deployment", d.Name, "reason", reason)
	return nil
}
