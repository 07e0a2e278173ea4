// Package rollout tells what the state of a Deployment means for the object that owns it.
package rollout

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// CountsDelay is how long a rollout may run before the counts of its pods are published
// while it goes on. A rollout that is quicker costs two status writes, whatever its size.
const CountsDelay = time.Minute

// Observation is what a pass over an owner found.
type Observation struct {
	// Generation of the owner's spec that the pass worked for.
	Generation int64
	// Deployment as it is after the pass; nil where there is none.
	Deployment *appsv1.Deployment
	// Err says why the Deployment is not as the spec asks; nil where it is.
	Err error
	// Now is the time of the pass.
	Now time.Time
}

// Status returns the owner's status after an observation, given the one before it. The
// duration, where it is not zero, is the time after which to observe again, since counts
// are held back until then.
func Status(previous examplev1alpha1.DeploymentStatus, seen Observation) (examplev1alpha1.DeploymentStatus, time.Duration) {
	verdict := judge(previous, seen)
	status := examplev1alpha1.DeploymentStatus{
		ObservedGeneration: seen.Generation,
		Conditions:         slices.Clone(previous.Conditions),
	}
	changed := setConditions(&status.Conditions, verdict, seen)
	if d := seen.Deployment; d != nil {
		status.Replicas = d.Status.Replicas
		status.AvailableReplicas = d.Status.AvailableReplicas
		status.Selector = metav1.FormatLabelSelector(d.Spec.Selector)
	}
	if changed || verdict.reason != examplev1alpha1.ReasonRolloutInProgress {
		return status, 0
	}
	hold := heldBack(status.Conditions, seen.Now)
	if hold > 0 {
		status.Replicas, status.AvailableReplicas = previous.Replicas, previous.AvailableReplicas
	}
	return status, hold
}

// heldBack returns for how long the counts of a rollout in progress are still held back.
func heldBack(conditions []metav1.Condition, now time.Time) time.Duration {
	progressing := meta.FindStatusCondition(conditions, examplev1alpha1.ConditionProgressing)
	return max(0, CountsDelay-now.Sub(progressing.LastTransitionTime.Time))
}

// verdict is the one thing to say of an owner.
type verdict struct {
	reason, message       string
	progressing, degraded bool
}

func (v verdict) ready() bool { return v.reason == examplev1alpha1.ReasonAsExpected }

func judge(previous examplev1alpha1.DeploymentStatus, seen Observation) verdict {
	if seen.Err != nil {
		return judgeError(seen.Err)
	}
	d := seen.Deployment
	switch {
	case !d.DeletionTimestamp.IsZero():
		return verdict{progressing: true, reason: examplev1alpha1.ReasonDeploymentTerminating,
			message: "The Deployment is being deleted; it is created anew once it is gone."}
	case d.Status.ObservedGeneration < d.Generation:
		return inProgress()
	case conditionStatus(d, appsv1.DeploymentReplicaFailure) == corev1.ConditionTrue:
		return verdict{degraded: true, reason: examplev1alpha1.ReasonPodsRefused,
			message: "Pods are refused, by a quota or a policy: see the events of the Deployment's ReplicaSets (kubectl describe replicasets)."}
	case complete(d):
		return verdict{reason: examplev1alpha1.ReasonAsExpected, message: "All replicas are up to date and available."}
	case progressReason(d) == "ProgressDeadlineExceeded":
		return verdict{degraded: true, reason: examplev1alpha1.ReasonProgressDeadlineExceeded,
			message: "The rollout has made no progress for too long: see why its pods are not ready (kubectl describe pods)."}
	case wasComplete(previous, seen.Generation) && progressReason(d) == "NewReplicaSetAvailable":
		return verdict{degraded: true, reason: examplev1alpha1.ReasonReplicasUnavailable,
			message: "Not all replicas are available: see why pods are not ready (kubectl describe pods)."}
	default:
		return inProgress()
	}
}

func inProgress() verdict {
	return verdict{progressing: true, reason: examplev1alpha1.ReasonRolloutInProgress,
		message: "Waiting for the Deployment to be as the spec asks."}
}

func judgeError(err error) verdict {
	switch {
	case IsNameTaken(err):
		return verdict{degraded: true, reason: examplev1alpha1.ReasonDeploymentNameTaken, message: err.Error()}
	case IsRefused(err):
		return verdict{degraded: true, reason: examplev1alpha1.ReasonDeploymentRefused,
			message: "The API server refuses the Deployment; change the spec: " + err.Error()}
	default:
		return verdict{progressing: true, degraded: true, reason: examplev1alpha1.ReasonApplyFailed,
			message: "The Deployment cannot be brought up to date; it is tried again: " + err.Error()}
	}
}

// complete reports whether the Deployment's own status says that it runs its current
// generation, all of it and nothing else.
func complete(d *appsv1.Deployment) bool {
	wanted := *d.Spec.Replicas
	return d.Status.UpdatedReplicas == wanted && d.Status.Replicas == wanted &&
		d.Status.AvailableReplicas == wanted &&
		conditionStatus(d, appsv1.DeploymentAvailable) == corev1.ConditionTrue
}

// wasComplete reports whether the generation has been rolled out before.
func wasComplete(previous examplev1alpha1.DeploymentStatus, generation int64) bool {
	progressing := meta.FindStatusCondition(previous.Conditions, examplev1alpha1.ConditionProgressing)
	return progressing != nil && progressing.ObservedGeneration == generation &&
		progressing.Reason == examplev1alpha1.ReasonRolloutComplete
}
