package sizing

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// defaultCooldown is that of the API.
const defaultCooldown = time.Hour

// AnnotationRestartedAt is the annotation of a pod template by which kubectl rollout restart has
// a Deployment replace its pods.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// AnnotationRevision is the annotation of a Deployment in which its controller counts the
// templates that it had (pkg/controller/deployment/util in k8s.io/kubernetes).
const AnnotationRevision = "deployment.kubernetes.io/revision"

// reasonNewReplicaSetAvailable is the reason that the Deployment controller gives the condition
// Progressing when a rollout has ended.
const reasonNewReplicaSetAvailable = "NewReplicaSetAvailable"

// RolloutHeld returns why a Deployment cannot be rolled out anew now, as a reason of the
// condition Applied, or nothing where it can; and the time after which to look again, where no
// event of the Deployment tells.
func RolloutHeld(d *appsv1.Deployment, behavior *autoscalingv1beta1.Behavior, now time.Time) (reason string, again time.Duration) {
	allowOutage, cooldown := false, defaultCooldown
	if behavior != nil && behavior.Rollout != nil {
		allowOutage = behavior.Rollout.AllowOutage
		if seconds := behavior.Rollout.CooldownSeconds; seconds != nil {
			cooldown = time.Duration(*seconds) * time.Second
		}
	}
	// The annotation has whole seconds: of two rollouts in one, the second would change nothing.
	cooldown = max(cooldown, time.Second)
	switch left := cooldown - now.Sub(lastRollout(d)); {
	case d.Spec.Paused:
		return autoscalingv1beta1.ReasonDeploymentPaused, 0
	case inProgress(d):
		return autoscalingv1beta1.ReasonRolloutInProgress, 0
	case !allowOutage && !keepsServing(d):
		return autoscalingv1beta1.ReasonRolloutNeedsOutage, 0
	case left > 0:
		return autoscalingv1beta1.ReasonRolloutCooldown, left
	default:
		return "", 0
	}
}

// lastRollout returns when a Deployment was rolled out last, by whomever; the zero time where
// it never was, or nothing tells.
func lastRollout(d *appsv1.Deployment) time.Time {
	// A time that is none is no rollout.
	last, _ := time.Parse(time.RFC3339, d.Spec.Template.Annotations[AnnotationRestartedAt])
	if d.Annotations[AnnotationRevision] == "1" {
		return last // The first pods replaced none.
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

// inProgress reports whether a Deployment is not, or is not known to be, what its spec says.
func inProgress(d *appsv1.Deployment) bool {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != wanted ||
		d.Status.Replicas != wanted || d.Status.AvailableReplicas != wanted
}

// keepsServing reports whether some pod of a Deployment goes on running while the others are
// replaced: not all may go before there are new ones.
func keepsServing(d *appsv1.Deployment) bool {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return false
	}
	wanted := int(ptr.Deref(d.Spec.Replicas, 1))
	// The API server's defaults are set on each Deployment that it has.
	rolling := ptr.Deref(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	surge, surgeErr := scaled(rolling.MaxSurge, wanted, true)
	unavailable, err := scaled(rolling.MaxUnavailable, wanted, false)
	if surge == 0 {
		unavailable = max(unavailable, 1) // Or else the rollout could not begin.
	}
	return surgeErr == nil && err == nil && unavailable < wanted
}

// scaled returns a number of pods that may be given in percent of those wanted.
func scaled(pods *intstr.IntOrString, wanted int, roundUp bool) (int, error) {
	return intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(pods, intstr.FromString("25%")), wanted, roundUp)
}
