package sizing

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// requestLifetime is how long a request for a rollout counts that was not carried out, for
	// example because the manager was stopped.
	requestLifetime = 10 * time.Minute
	// MaxRolloutTime is how long a rollout counts as one of those in progress.
	MaxRolloutTime = time.Hour
)

// Rollout is what decides whether a Deployment is rolled out.
type Rollout struct {
	Deployment *appsv1.Deployment
	Behavior   *autoscalingv1beta1.Behavior
	// Last is the published status of the last rollout, nil if there was none.
	Last *autoscalingv1beta1.RolloutStatus
	// Reason is why pods have to be replaced. It is empty if none has to be, or if a rollout would
	// not help.
	Reason string
	// Cause is what the rollout is for, a RolloutCause.
	Cause string
	// NewestStuck is when the newest of the pods to replace was created.
	NewestStuck time.Time
	// IsSettled is true if no pod has to be replaced or is being resized.
	IsSettled bool
	// IsInTable is true if new pods get the size.
	IsInTable bool
	// Fits is true if a node can hold a new pod.
	Fits bool
	// DeclaredBy is the field manager that sets the annotation itself. It is empty if there is none.
	DeclaredBy string
	// History is the usage history of the sized container that has the least of it.
	History time.Duration
	// OOMKilled is true if a container has run out of memory recently.
	OOMKilled bool
}

// RolloutStep is what to do about a rollout in one reconcile.
type RolloutStep struct {
	// Status is the status of the last rollout.
	Status *autoscalingv1beta1.RolloutStatus
	// Block is why no rollout starts, if pods have to be replaced.
	Block Block
	// Request is set if a rollout is possible. It is to be published before the rollout starts, so
	// that a manager that stops in between starts no second one.
	Request *autoscalingv1beta1.RolloutStatus
	// Start is true if the annotation is to be set to Status.RequestedAt now. A repetition changes
	// nothing.
	Start bool
}

// Next returns the next step. The steps of a rollout are: request, start, complete, and finally
// whether it was effective.
func (r *Rollout) Next(now time.Time) RolloutStep {
	last := r.observe(now)
	if r.Reason == "" {
		return RolloutStep{Status: withdraw(last)}
	}
	if block := r.block(last, now); block.Reason != "" {
		return RolloutStep{Status: withdraw(last), Block: block}
	}
	if !r.IsInTable {
		return RolloutStep{Status: last}
	}
	if isRequested(last) && last.Cause == r.Cause && now.Sub(last.RequestedAt.Time) < requestLifetime {
		return RolloutStep{Status: last, Start: true}
	}
	request := &autoscalingv1beta1.RolloutStatus{
		Reason: r.Reason, Cause: r.Cause, State: autoscalingv1beta1.RolloutRequested,
		RequestedAt: metav1.NewTime(now).Rfc3339Copy(),
	}
	if last != nil {
		request.Ineffective = last.Ineffective
	}
	return RolloutStep{Status: last, Request: request}
}

func isRequested(rollout *autoscalingv1beta1.RolloutStatus) bool {
	return rollout != nil && rollout.State == autoscalingv1beta1.RolloutRequested
}

// IsRolloutActive reports whether a rollout takes one of the places of rollouts in progress.
func IsRolloutActive(rollout *autoscalingv1beta1.RolloutStatus, now time.Time) bool {
	return rollout != nil && now.Sub(rollout.RequestedAt.Time) < MaxRolloutTime &&
		(rollout.State == autoscalingv1beta1.RolloutRequested || rollout.State == autoscalingv1beta1.RolloutStarted)
}

// observe returns the last rollout with the state that the Deployment and the pods show.
func (r *Rollout) observe(now time.Time) *autoscalingv1beta1.RolloutStatus {
	if r.Last == nil {
		return nil
	}
	last := r.Last.DeepCopy()
	if isRequested(last) && restartedAt(r.Deployment).Equal(last.RequestedAt.Time) {
		last.State = autoscalingv1beta1.RolloutStarted
	}
	if last.State == autoscalingv1beta1.RolloutStarted && !isInProgress(r.Deployment, now) {
		last.State = autoscalingv1beta1.RolloutCompleted
	}
	isJudged := last.State == autoscalingv1beta1.RolloutCompleted ||
		last.State == autoscalingv1beta1.RolloutEffective && last.Cause == r.Cause
	switch {
	case !isJudged:
	case r.IsSettled:
		last.State, last.Ineffective = autoscalingv1beta1.RolloutEffective, 0
	case r.Reason != "" && isSameWithoutAmounts(last.Cause, r.Cause) && !r.waitsForPods(last, now):
		last.State = autoscalingv1beta1.RolloutIneffective
		last.Ineffective++
	}
	return last
}

// waitsForPods reports whether none of the pods to replace is known to be newer than the last
// rollout: the cache does not have the new pods yet. It stops waiting after a while, because the
// clocks of the manager and of the API server can differ.
func (r *Rollout) waitsForPods(last *autoscalingv1beta1.RolloutStatus, now time.Time) bool {
	return last != nil && last.State == autoscalingv1beta1.RolloutCompleted && !isUndone(last, r.Deployment) &&
		r.NewestStuck.Before(last.RequestedAt.Time) && now.Sub(last.RequestedAt.Time) < MaxRolloutTime
}

// isUndone reports whether the annotation of a rollout was removed, or replaced with an earlier one.
func isUndone(rollout *autoscalingv1beta1.RolloutStatus, d *appsv1.Deployment) bool {
	return restartedAt(d).Before(rollout.RequestedAt.Time)
}

// whyIneffective returns what happened to a rollout that had no effect, if that is known.
func whyIneffective(rollout *autoscalingv1beta1.RolloutStatus, d *appsv1.Deployment) string {
	if isUndone(rollout, d) {
		return "somebody removed or replaced the annotation " + AnnotationRestartedAt + " of the last rollout"
	}
	return ""
}

// withdraw returns a rollout, which is not to start if it was only requested.
func withdraw(rollout *autoscalingv1beta1.RolloutStatus) *autoscalingv1beta1.RolloutStatus {
	if !isRequested(rollout) {
		return rollout
	}
	withdrawn := rollout.DeepCopy()
	withdrawn.State = autoscalingv1beta1.RolloutWithdrawn
	return withdrawn
}
