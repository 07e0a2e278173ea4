package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// rollOut has a Deployment replace its pods, where it can be now and new ones get their size, as
// kubectl rollout restart does: the annotation is all that is ever written of a Deployment that
// is not ours. Because is the reason for which pods cannot be resized. It returns the reason of
// the condition Applied for the pods that wait for the rollout, and the time after which to look
// again.
func (r *VerticalScalerReconciler) rollOut(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, d *appsv1.Deployment, because string, isPublished bool, now time.Time,
) (reason string, again time.Duration, err error) {
	if reason, again = sizing.RolloutHeld(d, scaler.Spec.Behavior, now); reason != "" {
		return reason, again, nil
	}
	if !isPublished { // The next pass, which the new status brings about, finds it so.
		return autoscalingv1beta1.ReasonRolloutInProgress, 0, nil
	}
	configuration := appsv1ac.Deployment(d.Name, d.Namespace).
		WithUID(d.UID). // Another Deployment of the name is not meant.
		WithResourceVersion(d.ResourceVersion).
		WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().
			WithAnnotations(map[string]string{sizing.AnnotationRestartedAt: now.UTC().Format(time.RFC3339)})))
	err = r.uncached.Apply(ctx, configuration, r.fieldOwner, client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// It has changed meanwhile, which is about to be seen.
		return autoscalingv1beta1.ReasonRolloutInProgress, 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("roll out Deployment %s: %w", d.Name, err)
	}
	r.resizer.metrics.rollouts.WithLabelValues(because).Inc()
	r.recorder.Eventf(scaler, nil, corev1.EventTypeNormal, "RolledOut", "RollOut",
		"Rolled out Deployment %q: its pods cannot be resized in place (%s), and new ones are born at the size in status.sizing.",
		d.Name, because)
	log.FromContext(ctx).Info("Rolled out a Deployment", "Deployment", d.Name, "reason", because)
	return autoscalingv1beta1.ReasonRolloutInProgress, 0, nil
}
