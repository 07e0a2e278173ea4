package controllers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// findings are what a scaler's status follows from.
type findings struct {
	// target is the metadata of the Deployment, nil where there is none.
	target *metav1.PartialObjectMetadata
	// rival is the older scaler that acts in this one's place, nil where there is none.
	rival *autoscalingv1beta1.VerticalScaler
	advice
	// deployment is the target as a whole, nil where its pods are not to be sized now.
	deployment *appsv1.Deployment
	// horizontal are the resources that are left to a HorizontalPodAutoscaler, with its name.
	horizontal map[corev1.ResourceName]string
	// policyMissing says that the API server does not size new pods.
	policyMissing bool
	// resized says how the running pods follow their size.
	resized *resizes
	// unavailable says why usage cannot be read and what to do; empty where it can.
	unavailable string
}

// newStatus returns a scaler's status with what is recommended and the sizes that follow.
func newStatus(
	scaler *autoscalingv1beta1.VerticalScaler, found findings, now time.Time,
) autoscalingv1beta1.VerticalScalerStatus {
	status := *scaler.Status.DeepCopy()
	status.ObservedGeneration = scaler.Generation
	if status.DeploymentName != scaler.Spec.DeploymentName {
		status.DeploymentName, status.Recommendations, status.Sizing, status.Fallback = scaler.Spec.DeploymentName, nil, nil, nil
	}
	setRecommendations(scaler, &status, found)
	setSizing(scaler, &status, found, now)
	return status
}

// setConditions puts the conditions into a scaler's status.
func setConditions(
	scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus, found findings, now time.Time,
) {
	target, conflicted := targetFound(scaler, found.target), conflict(scaler, found.rival)
	recommended := recommendationReady(scaler, status.Recommendations, found)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == autoscalingv1beta1.ReasonPending
	})
	for _, condition := range []metav1.Condition{
		target, conflicted, recommended, applied(scaler, status, found, now),
		ready(scaler, target, conflicted, recommended),
	} {
		condition.ObservedGeneration = scaler.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// setRecommendations puts what is recommended into the status, where that says something new.
func setRecommendations(
	scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus, found findings,
) {
	switch {
	case found.rival != nil:
		status.Recommendations = nil
	case scaler.Spec.Suspend:
	case sizing.News(status.Recommendations, found.recommendations):
		status.Recommendations = found.recommendations
	}
	status.PodTarget = sizing.PodTarget(status.Recommendations)
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

// recommendationReady says whether there is a recommendation for each container. Its reason is
// the first thing that keeps it from being one, or from following the usage of now.
func recommendationReady(
	scaler *autoscalingv1beta1.VerticalScaler, recommended []autoscalingv1beta1.ContainerRecommendation, found findings,
) metav1.Condition {
	missing := missingFrom(recommended, found.containers)
	condition := metav1.Condition{Type: autoscalingv1beta1.ConditionRecommendationReady, Status: metav1.ConditionFalse}
	if len(recommended) > 0 && len(missing) == 0 {
		condition.Status = metav1.ConditionTrue
	}
	switch {
	case found.rival != nil:
		condition.Reason = autoscalingv1beta1.ReasonConflicted
		condition.Message = fmt.Sprintf("VerticalScaler %q is older and has the recommendation.", found.rival.Name)
	case scaler.Spec.Suspend:
		condition.Reason = autoscalingv1beta1.ReasonSuspended
		condition.Message = "spec.suspend is set: the recommendation stays as it is until it is removed."
	case found.unavailable != "":
		condition.Reason = autoscalingv1beta1.ReasonMetricsUnavailable
		condition.Message = fmt.Sprintf("Usage cannot be read: %s.", found.unavailable)
	case !found.running:
		condition.Reason = autoscalingv1beta1.ReasonNoPods
		condition.Message = fmt.Sprintf("Deployment %q has no pods: usage is measured as soon as it has.", scaler.Spec.DeploymentName)
	case len(missing) > 0:
		condition.Reason = autoscalingv1beta1.ReasonNoSamples
		condition.Message = fmt.Sprintf("The usage of %s has not been measured yet: it usually is within two minutes of its start.",
			strings.Join(missing, ", "))
	default:
		condition.Reason = autoscalingv1beta1.ReasonRecommended
		condition.Message = "Each container has a recommendation from its usage, see status.recommendations."
	}
	return condition
}

// missingFrom returns, in quotes, the containers that are not among those recommended for.
func missingFrom(recommended []autoscalingv1beta1.ContainerRecommendation, containers []string) []string {
	var missing []string
	for _, container := range containers {
		if recommendationOf(recommended, container) == nil {
			missing = append(missing, strconv.Quote(container))
		}
	}
	return missing
}

// ready sums the other conditions up: the first thing that stands in the way is the reason.
func ready(scaler *autoscalingv1beta1.VerticalScaler, target, conflicted, recommended metav1.Condition) metav1.Condition {
	ready := metav1.Condition{Type: autoscalingv1beta1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case conflicted.Status == metav1.ConditionTrue:
		ready.Reason, ready.Message = conflicted.Reason, conflicted.Message
	case scaler.Spec.Suspend:
		ready.Reason = autoscalingv1beta1.ReasonSuspended
		ready.Message = "spec.suspend is set: nothing is learned, recommended or applied until it is removed."
	case target.Status != metav1.ConditionTrue:
		ready.Reason, ready.Message = target.Reason, target.Message
	default:
		ready.Status = recommended.Status
		ready.Reason, ready.Message = recommended.Reason, recommended.Message
	}
	return ready
}
