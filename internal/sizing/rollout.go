package sizing

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// defaultCooldown is the API's default.
const defaultCooldown = time.Hour

// AnnotationRestartedAt is the pod template's annotation that kubectl rollout restart sets. A
// new value makes the Deployment replace its pods.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// AnnotationRevision is the annotation in which the Deployment controller counts a Deployment's
// templates (pkg/controller/deployment/util in k8s.io/kubernetes).
const AnnotationRevision = "deployment.kubernetes.io/revision"

// reasonNewReplicaSetAvailable is the Deployment controller's reason for the Progressing
// condition after a rollout has ended.
const reasonNewReplicaSetAvailable = "NewReplicaSetAvailable"

// RolloutBlocked returns why a Deployment cannot be rolled out now, as a reason of the Applied
// condition. The reason is empty if a rollout is possible. requeueAfter is set if the rollout
// only has to wait. In all other cases, an event of the Deployment triggers the next reconcile.
func RolloutBlocked(d *appsv1.Deployment, behavior *autoscalingv1beta1.Behavior, now time.Time) (reason string, requeueAfter time.Duration) {
	allowOutage, cooldown := false, defaultCooldown
	if behavior != nil && behavior.Rollout != nil {
		allowOutage = behavior.Rollout.AllowOutage
		if seconds := behavior.Rollout.CooldownSeconds; seconds != nil {
			cooldown = time.Duration(*seconds) * time.Second
		}
	}
	// The annotation has whole seconds, so a second rollout in the same second changes nothing.
	cooldown = max(cooldown, time.Second)
	switch remaining := cooldown - now.Sub(lastRollout(d)); {
	case d.Spec.Paused:
		return autoscalingv1beta1.ReasonDeploymentPaused, 0
	case isInProgress(d):
		return autoscalingv1beta1.ReasonRolloutInProgress, 0
	case !allowOutage && !keepsPodsRunning(d):
		return autoscalingv1beta1.ReasonRolloutNeedsOutage, 0
	case remaining > 0:
		return autoscalingv1beta1.ReasonRolloutCooldown, remaining
	default:
		return "", 0
	}
}

// lastRollout returns the time of a Deployment's last rollout, whoever started it. It returns
// the zero time if there was no rollout or if its time is unknown.
func lastRollout(d *appsv1.Deployment) time.Time {
	// An annotation with an invalid time counts as no rollout.
	last, _ := time.Parse(time.RFC3339, d.Spec.Template.Annotations[AnnotationRestartedAt])
	if d.Annotations[AnnotationRevision] == "1" {
		return last // The first revision has not replaced any pods.
	}
	for i := range d.Status.Conditions {
		condition := &d.Status.Conditions[i]
		if condition.Type == appsv1.DeploymentProgressing && condition.Reason == reasonNewReplicaSetAvailable &&
			condition.LastUpdateTime.After(last) {
			last = condition.LastUpdateTime.Time
		}
	}
	return last
}

// isInProgress reports whether a Deployment's status does not match its spec, or is outdated.
func isInProgress(d *appsv1.Deployment) bool {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	return d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != replicas ||
		d.Status.Replicas != replicas || d.Status.AvailableReplicas != replicas
}

// keepsPodsRunning reports whether at least one pod of a Deployment runs at any time during a
// rollout. It is false if the rollout can stop all old pods before a new pod is available.
func keepsPodsRunning(d *appsv1.Deployment) bool {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return false
	}
	const roundUp, roundDown = true, false
	replicas := int(ptr.Deref(d.Spec.Replicas, 1))
	// In a cluster both fields are set because the API server sets their defaults.
	rolling := ptr.Deref(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	byDefault := intstr.FromString("25%")
	surge, surgeErr := intstr.GetScaledValueFromIntOrPercent(
		intstr.ValueOrDefault(rolling.MaxSurge, byDefault), replicas, roundUp)
	unavailable, unavailableErr := intstr.GetScaledValueFromIntOrPercent(
		intstr.ValueOrDefault(rolling.MaxUnavailable, byDefault), replicas, roundDown)
	if surge == 0 {
		unavailable = max(unavailable, 1) // Otherwise, the rollout could not start.
	}
	return surgeErr == nil && unavailableErr == nil && unavailable < replicas
}
