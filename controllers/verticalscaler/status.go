package verticalscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/ssa"
)

// writeStatus writes the status if it differs, records events for its transitions, and returns
// the error of the reconcile.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	var failed error
	if s.failure != nil {
		failed = s.failure.err
	}
	if equality.Semantic.DeepEqual(s.scaler.Status, s.status) {
		return failed
	}
	if err := ssa.ApplyStatus(ctx, r.Client, r.fieldOwner, s.scaler, s.status); err != nil {
		return errors.Join(failed, client.IgnoreNotFound(err)) // Not found: the scaler was deleted.
	}
	r.recordTransitions(s)
	return failed
}

// setConditions sets the conditions of the status. A condition that a failed step has not
// evaluated is Unknown.
func (s *scope) setConditions() {
	target, applied := s.targetFound(), s.applied()
	conditions := []metav1.Condition{target, applied}
	if f := s.failedWith(autoscalingv1beta1.ReasonObserveFailed); f != nil {
		conditions = append(conditions, f.unknown(autoscalingv1beta1.ConditionReady))
	} else {
		conflicted, recommended := s.conflicted(), s.recommendationReady()
		conditions = []metav1.Condition{target, conflicted, recommended, applied, s.ready(target, conflicted, recommended)}
	}
	s.publishConditions(conditions...)
}

// publishConditions sets conditions of the status.
func (s *scope) publishConditions(conditions ...metav1.Condition) {
	s.status.Conditions = slices.DeleteFunc(s.status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == autoscalingv1beta1.ReasonPending
	})
	for _, condition := range conditions {
		condition.ObservedGeneration = s.scaler.Generation
		condition.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&s.status.Conditions, condition)
	}
}

func newCondition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// unknown returns a condition that a failed step could not evaluate.
func (f *failure) unknown(conditionType string) metav1.Condition {
	return newCondition(conditionType, metav1.ConditionUnknown, f.reason, f.message)
}

// targetFound returns the condition TargetFound: whether the Deployment exists.
func (s *scope) targetFound() metav1.Condition {
	const conditionType = autoscalingv1beta1.ConditionTargetFound
	name := s.scaler.Spec.DeploymentName
	if f := s.failedWith(autoscalingv1beta1.ReasonObserveFailed); f != nil {
		return f.unknown(conditionType)
	}
	switch {
	case s.target == nil:
		return newCondition(conditionType, metav1.ConditionFalse, autoscalingv1beta1.ReasonDeploymentNotFound,
			fmt.Sprintf("Deployment %q does not exist in this namespace. Create it or correct spec.deploymentName.", name))
	case !s.target.DeletionTimestamp.IsZero():
		return newCondition(conditionType, metav1.ConditionFalse, autoscalingv1beta1.ReasonDeploymentTerminating,
			fmt.Sprintf("Deployment %q is being deleted. A re-created Deployment is picked up immediately.", name))
	default:
		return newCondition(conditionType, metav1.ConditionTrue, autoscalingv1beta1.ReasonDeploymentFound,
			fmt.Sprintf("Deployment %q exists.", name))
	}
}

// conflicted returns the condition Conflicted: whether an older scaler acts on the same Deployment.
func (s *scope) conflicted() metav1.Condition {
	const conditionType = autoscalingv1beta1.ConditionConflicted
	if s.older == nil {
		return newCondition(conditionType, metav1.ConditionFalse, autoscalingv1beta1.ReasonNotConflicted,
			fmt.Sprintf("No older VerticalScaler names Deployment %q.", s.scaler.Spec.DeploymentName))
	}
	return newCondition(conditionType, metav1.ConditionTrue, autoscalingv1beta1.ReasonConflicted,
		fmt.Sprintf("VerticalScaler %q is older and acts on Deployment %q. Delete one of the two.",
			s.older.Name, s.scaler.Spec.DeploymentName))
}

// recommendationReady returns the condition RecommendationReady: whether each container has a
// recommendation. Its reason is the first obstacle to a current recommendation.
func (s *scope) recommendationReady() metav1.Condition {
	if f := s.failedWith(autoscalingv1beta1.ReasonRecommendFailed); f != nil {
		return f.unknown(autoscalingv1beta1.ConditionRecommendationReady)
	}
	missing := s.missingRecommendations()
	status := metav1.ConditionFalse
	if len(s.status.Recommendations) > 0 && len(missing) == 0 {
		status = metav1.ConditionTrue
	}
	reason, message := s.recommendationReason(missing)
	return newCondition(autoscalingv1beta1.ConditionRecommendationReady, status, reason, message)
}

func (s *scope) recommendationReason(missing []string) (reason, message string) {
	switch {
	case s.older != nil:
		return autoscalingv1beta1.ReasonConflicted,
			fmt.Sprintf("VerticalScaler %q is older and has the recommendation.", s.older.Name)
	case s.scaler.Spec.Suspend:
		return autoscalingv1beta1.ReasonSuspended,
			"spec.suspend is set: the recommendation does not change."
	case s.unavailable != "":
		return autoscalingv1beta1.ReasonMetricsUnavailable, s.unavailable
	case !s.recommendation.HasPod:
		return autoscalingv1beta1.ReasonNoPods,
			fmt.Sprintf("Deployment %q has no pods, so there is no usage.", s.scaler.Spec.DeploymentName)
	case len(missing) > 0:
		return autoscalingv1beta1.ReasonNoSamples,
			fmt.Sprintf("No usage samples for container %s yet; they usually arrive within two minutes of its start.",
				strings.Join(missing, ", "))
	case s.incomplete.Reason != "":
		return s.incomplete.Reason, s.incomplete.Message
	default:
		return autoscalingv1beta1.ReasonRecommended,
			"Each container has a recommendation, see status.recommendations."
	}
}

// missingRecommendations returns the quoted names of the containers without a recommendation.
func (s *scope) missingRecommendations() []string {
	var missing []string
	for _, container := range s.recommendation.Containers {
		if recommendation.ForContainer(s.status.Recommendations, container) == nil {
			missing = append(missing, strconv.Quote(container))
		}
	}
	return missing
}

// ready returns the condition Ready, which summarizes the others. Its reason is the first obstacle.
func (s *scope) ready(target, conflicted, recommended metav1.Condition) metav1.Condition {
	const conditionType = autoscalingv1beta1.ConditionReady
	if f := s.failedWith(autoscalingv1beta1.ReasonRecommendFailed); f != nil {
		return f.unknown(conditionType)
	}
	switch {
	case conflicted.Status == metav1.ConditionTrue:
		return newCondition(conditionType, metav1.ConditionFalse, conflicted.Reason, conflicted.Message)
	case s.scaler.Spec.Suspend:
		return newCondition(conditionType, metav1.ConditionFalse, autoscalingv1beta1.ReasonSuspended,
			"spec.suspend is set: the controller does not learn, recommend or apply.")
	case target.Status != metav1.ConditionTrue:
		return newCondition(conditionType, metav1.ConditionFalse, target.Reason, target.Message)
	default:
		return newCondition(conditionType, recommended.Status, recommended.Reason, recommended.Message)
	}
}
