package ownedstatus

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// setConditions sets the conditions that follow from the verdict and reports whether any changed.
func setConditions(conditions *[]metav1.Condition, v verdict, observed Observation) bool {
	changed := false
	set := func(conditionType string, status metav1.ConditionStatus, reason, message string) {
		changed = meta.SetStatusCondition(conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: message,
			ObservedGeneration: observed.Generation, LastTransitionTime: metav1.NewTime(observed.Now),
		}) || changed
	}
	set(examplev1alpha1.ConditionReady, statusOf(v.ready()), v.reason, v.message)
	set(examplev1alpha1.ConditionAvailable, statusOf(v.ready()), v.reason, v.message)
	if v.ready() || v.reason == examplev1alpha1.ReasonReplicasUnavailable {
		set(examplev1alpha1.ConditionProgressing, metav1.ConditionFalse, examplev1alpha1.ReasonRolloutComplete,
			"The Deployment runs the current spec.")
	} else {
		set(examplev1alpha1.ConditionProgressing, statusOf(v.progressing), v.reason, v.message)
	}
	if v.degraded {
		set(examplev1alpha1.ConditionDegraded, metav1.ConditionTrue, v.reason, v.message)
	} else {
		set(examplev1alpha1.ConditionDegraded, metav1.ConditionFalse, examplev1alpha1.ReasonAsExpected, "No problems detected.")
	}
	return changed
}

func statusOf(isTrue bool) metav1.ConditionStatus {
	if isTrue {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// conditionOf returns a condition of the Deployment, or an empty one if it is not set.
func conditionOf(d *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, condition := range d.Status.Conditions {
		if condition.Type == conditionType {
			return condition
		}
	}
	return appsv1.DeploymentCondition{}
}

func conditionStatus(d *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) corev1.ConditionStatus {
	return conditionOf(d, conditionType).Status
}

// progressReason returns the reason that the Deployment controller sets for the Progressing
// condition (pkg/controller/deployment/util in k8s.io/kubernetes).
func progressReason(d *appsv1.Deployment) string {
	return conditionOf(d, appsv1.DeploymentProgressing).Reason
}
