package rollout

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// setConditions says the verdict in conditions and reports whether that says something new.
func setConditions(conditions *[]metav1.Condition, v verdict, seen Observation) bool {
	changed := false
	set := func(conditionType string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		changed = meta.SetStatusCondition(conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: message,
			ObservedGeneration: seen.Generation, LastTransitionTime: metav1.NewTime(seen.Now),
		}) || changed
	}
	set(examplev1alpha1.ConditionReady, v.ready(), v.reason, v.message)
	set(examplev1alpha1.ConditionAvailable, v.ready(), v.reason, v.message)
	if v.ready() || v.reason == examplev1alpha1.ReasonReplicasUnavailable {
		set(examplev1alpha1.ConditionProgressing, false, examplev1alpha1.ReasonRolloutComplete, "The Deployment runs the current spec.")
	} else {
		set(examplev1alpha1.ConditionProgressing, v.progressing, v.reason, v.message)
	}
	if v.degraded {
		set(examplev1alpha1.ConditionDegraded, true, v.reason, v.message)
	} else {
		set(examplev1alpha1.ConditionDegraded, false, examplev1alpha1.ReasonAsExpected, "Nothing is amiss.")
	}
	return changed
}

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

// progressReason returns what the Deployment controller says of the rollout; its words are
// those of k8s.io/kubernetes/pkg/controller/deployment/util.
func progressReason(d *appsv1.Deployment) string {
	return conditionOf(d, appsv1.DeploymentProgressing).Reason
}
