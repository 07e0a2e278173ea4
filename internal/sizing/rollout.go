package sizing

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// defaultCooldown and defaultRolloutHistory are the API's defaults.
	defaultCooldown       = time.Hour
	defaultRolloutHistory = time.Hour
	// maxCooldown is the longest cooldown after rollouts without effect.
	maxCooldown = 7 * 24 * time.Hour
	// podsDelay is the time after which to check again whether the pods of a rollout are known.
	podsDelay = 10 * time.Second
	// unknownProgress is how long pods may be unavailable if a Deployment has no progress deadline
	// of its own: the API's default of that.
	unknownProgress = 10 * time.Minute
)

// AnnotationRestartedAt is the pod template's annotation that kubectl rollout restart sets. A
// new value makes the Deployment replace its pods.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// AnnotationRevision is the annotation in which the Deployment controller counts a Deployment's
// templates (pkg/controller/deployment/util in k8s.io/kubernetes).
const AnnotationRevision = "deployment.kubernetes.io/revision"

// Reasons of the Deployment controller for the Progressing condition, after a rollout has ended
// and after one has made no progress for too long.
const (
	reasonNewReplicaSetAvailable   = "NewReplicaSetAvailable"
	reasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// Block is what keeps a rollout from starting.
type Block struct {
	// Reason is one of the condition Applied. It is empty if nothing blocks the rollout.
	Reason string
	// Detail is what to do in this case, or what happened.
	Detail string
	// RequeueAfter is set if no event reports the end of the block.
	RequeueAfter time.Duration
}

// block returns why the Deployment cannot be rolled out now, if last is the last rollout. What a
// user must act on comes first.
func (r *Rollout) block(last *autoscalingv1beta1.RolloutStatus, now time.Time) Block {
	d, rules := r.Deployment, rulesOfRollout(r.Behavior)
	switch {
	case d.Spec.Paused:
		return Block{Reason: autoscalingv1beta1.ReasonDeploymentPaused}
	case isInProgress(d, now):
		return Block{Reason: autoscalingv1beta1.ReasonRolloutInProgress}
	case r.waitsForPods(last, now):
		return Block{Reason: autoscalingv1beta1.ReasonRolloutInProgress, RequeueAfter: podsDelay}
	case r.isRepeated(last):
		return Block{Reason: autoscalingv1beta1.ReasonRolloutIneffective, Detail: whyIneffective(last, d)}
	case !r.Fits:
		return Block{Reason: autoscalingv1beta1.ReasonNoNodeFits}
	case !rules.AllowOutage && !keepsPodsRunning(d):
		return Block{Reason: autoscalingv1beta1.ReasonRolloutNeedsOutage, Detail: outageAdvice(d)}
	case r.DeclaredBy != "":
		return Block{Reason: autoscalingv1beta1.ReasonRolloutAnnotationOwned, Detail: fmt.Sprintf("field manager %q", r.DeclaredBy)}
	}
	if missing := secondsOr(rules.MinimumHistorySeconds, defaultRolloutHistory) - r.History; missing > 0 && !r.OOMKilled {
		return Block{Reason: autoscalingv1beta1.ReasonRolloutNeedsHistory, RequeueAfter: missing}
	}
	if left := cooldownLeft(last, d, secondsOr(rules.CooldownSeconds, defaultCooldown), now); left > 0 {
		return Block{Reason: autoscalingv1beta1.ReasonRolloutCooldown, RequeueAfter: left}
	}
	return Block{}
}

func rulesOfRollout(behavior *autoscalingv1beta1.Behavior) autoscalingv1beta1.RolloutRules {
	if behavior == nil || behavior.Rollout == nil {
		return autoscalingv1beta1.RolloutRules{}
	}
	return *behavior.Rollout
}

func secondsOr(seconds *int32, byDefault time.Duration) time.Duration {
	if seconds == nil {
		return byDefault
	}
	return time.Duration(*seconds) * time.Second
}

// cooldownLeft returns how long the cooldown after the last rollout still lasts. Each rollout in
// succession that had no effect doubles it.
func cooldownLeft(last *autoscalingv1beta1.RolloutStatus, d *appsv1.Deployment, cooldown time.Duration, now time.Time) time.Duration {
	// The annotation has whole seconds, so a second rollout in the same second changes nothing.
	cooldown = max(cooldown, time.Second)
	left := remaining(cooldown, lastRollout(d), now)
	if last == nil || last.Ineffective == 0 || isRequested(last) {
		return left
	}
	cooldown = max(cooldown, defaultCooldown)
	for range last.Ineffective {
		cooldown = min(2*cooldown, maxCooldown)
	}
	return max(left, remaining(cooldown, last.RequestedAt.Time, now))
}

// remaining returns how much of a time that began at since is left. A time in the future counts
// as now.
func remaining(length time.Duration, since, now time.Time) time.Duration {
	return min(length, length-now.Sub(since))
}

// lastRollout returns the time of a Deployment's last rollout, whoever started it. It returns
// the zero time if there was no rollout or if its time is unknown.
func lastRollout(d *appsv1.Deployment) time.Time {
	last := restartedAt(d)
	if d.Annotations[AnnotationRevision] == "1" {
		return last // The first revision has not replaced any pods.
	}
	if condition := conditionOf(d, appsv1.DeploymentProgressing); condition != nil &&
		condition.Reason == reasonNewReplicaSetAvailable && condition.LastUpdateTime.After(last) {
		last = condition.LastUpdateTime.Time
	}
	return last
}

// restartedAt returns the time in the annotation that starts a rollout. An annotation with an
// invalid time counts as none.
func restartedAt(d *appsv1.Deployment) time.Time {
	at, _ := time.Parse(time.RFC3339, d.Spec.Template.Annotations[AnnotationRestartedAt])
	return at
}

func conditionOf(d *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == conditionType {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// isInProgress reports whether a Deployment is replacing its pods, or its status is outdated.
func isInProgress(d *appsv1.Deployment, now time.Time) bool {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != replicas || d.Status.Replicas != replicas {
		return true
	}
	return d.Status.AvailableReplicas != replicas && !isWaitingInVain(d, now)
}

// isWaitingInVain reports whether a Deployment, all of whose pods have the newest template, has
// ended its rollout although pods are not available: they became unavailable later, or have not
// become available in time. Both happen to pods that crash.
func isWaitingInVain(d *appsv1.Deployment, now time.Time) bool {
	if progressing := conditionOf(d, appsv1.DeploymentProgressing); progressing != nil {
		return progressing.Reason == reasonNewReplicaSetAvailable || progressing.Reason == reasonProgressDeadlineExceeded
	}
	// Without a progress deadline, there is no such condition.
	available := conditionOf(d, appsv1.DeploymentAvailable)
	return available != nil &&
		(available.Status == corev1.ConditionTrue || now.Sub(available.LastTransitionTime.Time) >= unknownProgress)
}

// keepsPodsRunning reports whether at least one pod of a Deployment runs at any time during a
// rollout. It is false if the rollout can stop all old pods before a new pod is available.
func keepsPodsRunning(d *appsv1.Deployment) bool {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return false
	}
	surge, unavailable, err := surgeAndUnavailable(d)
	if surge == 0 {
		unavailable = max(unavailable, 1) // Otherwise, the rollout could not start.
	}
	return err == nil && unavailable < int(ptr.Deref(d.Spec.Replicas, 1))
}

// surgeAndUnavailable returns how many pods a rolling update may add, and how many may be
// unavailable.
func surgeAndUnavailable(d *appsv1.Deployment) (surge, unavailable int, err error) {
	const roundUp, roundDown = true, false
	replicas := int(ptr.Deref(d.Spec.Replicas, 1))
	// In a cluster both fields are set because the API server sets their defaults.
	rolling := ptr.Deref(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	byDefault := intstr.FromString("25%")
	surge, err = intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxSurge, byDefault), replicas, roundUp)
	if err != nil {
		return 0, 0, err
	}
	unavailable, err = intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxUnavailable, byDefault), replicas, roundDown)
	return surge, unavailable, err
}

// outageAdvice returns the change of a Deployment with which pods keep running during a rollout.
func outageAdvice(d *appsv1.Deployment) string {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return "its strategy is Recreate: RollingUpdate with maxUnavailable 0 keeps pods running"
	}
	if surge, _, err := surgeAndUnavailable(d); err != nil || surge == 0 {
		return "maxSurge 1 and maxUnavailable 0 keep pods running"
	}
	return "maxUnavailable 0 keeps pods running"
}
