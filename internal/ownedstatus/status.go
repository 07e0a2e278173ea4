// Package ownedstatus computes the status of an object that owns a Deployment, from the state
// of the Deployment.
package ownedstatus

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// countsDelay is how long a rollout runs before its replica counts are published. A shorter
// rollout needs two status writes, whatever its size.
const countsDelay = time.Minute

// Observation is what a reconcile of an owner found.
type Observation struct {
	// Generation is the generation of the owner's spec that was reconciled.
	Generation int64
	// Deployment is the owner's Deployment after the reconcile, or nil if there is none.
	Deployment *appsv1.Deployment
	// Err is why the Deployment does not have its desired state, or nil.
	Err error
	// Now is the time of the reconcile.
	Now time.Time
}

// Status returns the owner's next status and the time after which to reconcile again. The time
// is set only while replica counts are delayed.
func Status(previous examplev1alpha1.DeploymentStatus, observed Observation) (examplev1alpha1.DeploymentStatus, time.Duration) {
	verdict := judge(previous, observed)
	status := examplev1alpha1.DeploymentStatus{
		ObservedGeneration: observed.Generation,
		Conditions:         slices.Clone(previous.Conditions),
	}
	changed := setConditions(&status.Conditions, verdict, observed)
	if d := observed.Deployment; d != nil {
		status.Replicas = d.Status.Replicas
		status.AvailableReplicas = d.Status.AvailableReplicas
		status.Selector = metav1.FormatLabelSelector(d.Spec.Selector)
	} else if isSpecInvalid(observed.Err) { // The Deployment was not read.
		status.Replicas, status.AvailableReplicas, status.Selector = previous.Replicas, previous.AvailableReplicas, previous.Selector
	}
	if changed || verdict.reason != examplev1alpha1.ReasonRolloutInProgress {
		return status, 0
	}
	delay := remainingDelay(status.Conditions, observed.Now)
	if delay > 0 {
		status.Replicas, status.AvailableReplicas = previous.Replicas, previous.AvailableReplicas
	}
	return status, delay
}

// remainingDelay returns how long the replica counts of a rollout in progress are still delayed.
func remainingDelay(conditions []metav1.Condition, now time.Time) time.Duration {
	progressing := meta.FindStatusCondition(conditions, examplev1alpha1.ConditionProgressing)
	return max(0, countsDelay-now.Sub(progressing.LastTransitionTime.Time))
}

// verdict is the state of an owner. All conditions follow from it.
type verdict struct {
	reason, message       string
	progressing, degraded bool
}

func (v verdict) ready() bool { return v.reason == examplev1alpha1.ReasonAsExpected }

func judge(previous examplev1alpha1.DeploymentStatus, observed Observation) verdict {
	if observed.Err != nil {
		return judgeError(observed.Err)
	}
	d := observed.Deployment
	switch {
	case !d.DeletionTimestamp.IsZero():
		return verdict{progressing: true, reason: examplev1alpha1.ReasonDeploymentTerminating,
			message: "The Deployment is being deleted and will be re-created."}
	case d.Status.ObservedGeneration < d.Generation:
		return inProgress()
	case conditionStatus(d, appsv1.DeploymentReplicaFailure) == corev1.ConditionTrue:
		return verdict{degraded: true, reason: examplev1alpha1.ReasonPodsRefused,
			message: "A quota or a policy rejects new pods. Check the events of the Deployment's ReplicaSets (kubectl describe replicasets)."}
	case isComplete(d):
		return verdict{reason: examplev1alpha1.ReasonAsExpected, message: "All replicas are up to date and available."}
	case progressReason(d) == "ProgressDeadlineExceeded":
		return verdict{degraded: true, reason: examplev1alpha1.ReasonProgressDeadlineExceeded,
			message: "The rollout exceeded its progress deadline. Check why its pods are not ready (kubectl describe pods)."}
	case wasComplete(previous, observed.Generation) && progressReason(d) == "NewReplicaSetAvailable":
		return verdict{degraded: true, reason: examplev1alpha1.ReasonReplicasUnavailable,
			message: "Not all replicas are available. Check why pods are not ready (kubectl describe pods)."}
	default:
		return inProgress()
	}
}

func inProgress() verdict {
	return verdict{progressing: true, reason: examplev1alpha1.ReasonRolloutInProgress,
		message: "Waiting for the Deployment to match the spec."}
}

func judgeError(err error) verdict {
	switch {
	case isSpecInvalid(err):
		return verdict{degraded: true, reason: examplev1alpha1.ReasonSpecInvalid, message: err.Error()}
	case IsNameTaken(err):
		return verdict{degraded: true, reason: examplev1alpha1.ReasonDeploymentNameTaken, message: err.Error()}
	case IsRefused(err):
		return verdict{degraded: true, reason: examplev1alpha1.ReasonDeploymentRefused,
			message: "The API server rejects the Deployment. Change the spec: " + err.Error()}
	default:
		return verdict{progressing: true, degraded: true, reason: examplev1alpha1.ReasonApplyFailed,
			message: "Cannot reconcile the Deployment (" + repeatable(err) + "). The controller retries."}
	}
}

// isComplete reports whether the Deployment's own status shows that all its pods run the
// current generation and are available.
func isComplete(d *appsv1.Deployment) bool {
	desired := *d.Spec.Replicas
	return d.Status.UpdatedReplicas == desired && d.Status.Replicas == desired &&
		d.Status.AvailableReplicas == desired &&
		conditionStatus(d, appsv1.DeploymentAvailable) == corev1.ConditionTrue
}

// wasComplete reports whether the rollout of the owner's generation was complete before.
func wasComplete(previous examplev1alpha1.DeploymentStatus, generation int64) bool {
	progressing := meta.FindStatusCondition(previous.Conditions, examplev1alpha1.ConditionProgressing)
	return progressing != nil && progressing.ObservedGeneration == generation &&
		progressing.Reason == examplev1alpha1.ReasonRolloutComplete
}
