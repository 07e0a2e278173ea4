package controllers

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// scalerStatus returns a scaler's status, given its target's metadata (nil where there is
// none) and the older scaler that acts in its place (nil where there is none).
func scalerStatus(
	scaler *autoscalingv1beta1.VerticalScaler,
	target *metav1.PartialObjectMetadata,
	rival *autoscalingv1beta1.VerticalScaler,
	now time.Time,
) autoscalingv1beta1.VerticalScalerStatus {
	found := targetFound(scaler, target)
	conflicted := conflict(scaler, rival)
	status := *scaler.Status.DeepCopy()
	status.ObservedGeneration = scaler.Generation
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == autoscalingv1beta1.ReasonPending
	})
	for _, condition := range []metav1.Condition{found, conflicted, ready(scaler, found, conflicted)} {
		condition.ObservedGeneration = scaler.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func targetFound(scaler *autoscalingv1beta1.VerticalScaler, target *metav1.PartialObjectMetadata) metav1.Condition {
	name := scaler.Spec.DeploymentName
	switch {
	case target == nil:
		return metav1.Condition{
			Type: autoscalingv1beta1.ConditionTargetFound, Status: metav1.ConditionFalse,
			Reason:  autoscalingv1beta1.ReasonDeploymentNotFound,
			Message: fmt.Sprintf("There is no Deployment %q in this namespace: create it or correct spec.deploymentName.", name),
		}
	case !target.DeletionTimestamp.IsZero():
		return metav1.Condition{
			Type: autoscalingv1beta1.ConditionTargetFound, Status: metav1.ConditionFalse,
			Reason:  autoscalingv1beta1.ReasonDeploymentTerminating,
			Message: fmt.Sprintf("Deployment %q is being deleted; one created anew is found at once.", name),
		}
	default:
		return metav1.Condition{
			Type: autoscalingv1beta1.ConditionTargetFound, Status: metav1.ConditionTrue,
			Reason:  autoscalingv1beta1.ReasonDeploymentFound,
			Message: fmt.Sprintf("Deployment %q exists.", name),
		}
	}
}

func conflict(scaler, rival *autoscalingv1beta1.VerticalScaler) metav1.Condition {
	if rival == nil {
		return metav1.Condition{
			Type: autoscalingv1beta1.ConditionConflicted, Status: metav1.ConditionFalse,
			Reason:  autoscalingv1beta1.ReasonNotConflicted,
			Message: fmt.Sprintf("No older VerticalScaler names Deployment %q.", scaler.Spec.DeploymentName),
		}
	}
	return metav1.Condition{
		Type: autoscalingv1beta1.ConditionConflicted, Status: metav1.ConditionTrue,
		Reason: autoscalingv1beta1.ReasonConflicted,
		Message: fmt.Sprintf("VerticalScaler %q is older and acts on Deployment %q: delete one of the two.",
			rival.Name, scaler.Spec.DeploymentName),
	}
}

// ready sums the other conditions up: the first thing that stands in the way is the reason.
func ready(scaler *autoscalingv1beta1.VerticalScaler, found, conflicted metav1.Condition) metav1.Condition {
	ready := metav1.Condition{
		Type: autoscalingv1beta1.ConditionReady, Status: metav1.ConditionFalse,
	}
	switch {
	case conflicted.Status == metav1.ConditionTrue:
		ready.Reason, ready.Message = conflicted.Reason, conflicted.Message
	case scaler.Spec.Suspend:
		ready.Reason = autoscalingv1beta1.ReasonSuspended
		ready.Message = "spec.suspend is set: nothing is recommended or applied until it is removed."
	default:
		ready.Status = found.Status
		ready.Reason, ready.Message = found.Reason, found.Message
	}
	return ready
}
