package verticalscaler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// applied returns the condition Applied: whether the pods have the recommended size, and if not, why.
func (s *scope) applied() metav1.Condition {
	const conditionType = autoscalingv1beta1.ConditionApplied
	if s.failure != nil {
		return s.failure.unknown(conditionType)
	}
	for _, obstacle := range []func() (reason, message string){
		s.notApplied, s.pinnedObstacle, s.nothingToApply, s.creationObstacle,
	} {
		if reason, message := obstacle(); reason != "" {
			return newCondition(conditionType, metav1.ConditionFalse, reason, message)
		}
	}
	condition := s.appliedToPods()
	if s.isReverted() && !s.isPinned() {
		condition.Status, condition.Reason = metav1.ConditionFalse, autoscalingv1beta1.ReasonReverted
		condition.Message = s.revertMessage()
		if reason, message := s.result.summary(); reason != "" {
			condition.Message += " " + message
		}
	}
	if len(s.unproven) > 0 {
		condition.Message += " " + s.unprovenMessage()
	}
	if below := s.belowTarget(); condition.Status == metav1.ConditionTrue && !s.isPinned() && len(below) > 0 {
		condition.Message += fmt.Sprintf(" A limit or a LimitRange keeps these containers below their target: %s.",
			strings.Join(below, ", "))
	}
	return condition
}

// notApplied returns why the scaler applies no recommended sizes, or "" if it does.
func (s *scope) notApplied() (reason, message string) {
	switch {
	case s.older != nil:
		return autoscalingv1beta1.ReasonConflicted,
			fmt.Sprintf("VerticalScaler %q is older and sizes the pods.", s.older.Name)
	case s.scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeOff:
		return autoscalingv1beta1.ReasonUpdateModeOff,
			"spec.updateMode is Off: sizes are only recommended."
	case s.scaler.Spec.Suspend:
		return autoscalingv1beta1.ReasonSuspended,
			"spec.suspend is set: new pods use the Deployment's own resources, and running pods keep their size."
	case s.target == nil, s.deployment == nil && len(s.pods) > 0: // Deleted during the reconcile.
		return autoscalingv1beta1.ReasonDeploymentNotFound,
			"There are no pods to size. When the Deployment is created, its pods get the size in status.sizing."
	case s.hasFallback():
		return s.status.Fallback.Reason, s.fallbackMessage()
	default:
		return "", ""
	}
}

// nothingToApply returns why no container has a size, or "" if one has.
func (s *scope) nothingToApply() (reason, message string) {
	switch {
	case len(s.status.Sizing) > 0:
		return "", ""
	case len(s.unproven) > 0 && len(s.scaledByHPA) > 0:
		return autoscalingv1beta1.ReasonInsufficientHistory, s.unprovenMessage() + " Also, " + s.leftToHPA()
	case len(s.unproven) > 0:
		return autoscalingv1beta1.ReasonInsufficientHistory, s.unprovenMessage()
	case len(s.status.Recommendations) > 0 && len(s.scaledByHPA) > 0:
		return autoscalingv1beta1.ReasonHPAOnSameResource, "There is no resource to size: " + s.leftToHPA()
	default:
		return autoscalingv1beta1.ReasonNothingToApply,
			"No container selected by spec.containerPolicies has a recommendation."
	}
}

// creationObstacle returns why the API server does not size new pods, or "" if it does.
func (s *scope) creationObstacle() (reason, message string) {
	switch {
	case s.policyMissing:
		return autoscalingv1beta1.ReasonAdmissionPolicyMissing,
			"The API server does not size new pods: install the admission policy (kubectl apply -k deploy/admission). " +
				"It needs Kubernetes 1.36 or later (MutatingAdmissionPolicy in admissionregistration.k8s.io/v1)."
	case s.newPods.isOmitted:
		return autoscalingv1beta1.ReasonSizeTableFull,
			"The SizeTable of the namespace is full, so new pods use the Deployment's own resources, and no rollout starts. " +
				"Use fewer VerticalScalers in this namespace."
	case s.newPods.hasTableFailed && !s.isInTable():
		return autoscalingv1beta1.ReasonSizeTableFailed,
			"The SizeTable of the namespace cannot be written, so new pods do not get the size in status.sizing, and no rollout starts. " +
				"The controller retries. The manager's log has the error."
	case s.newPods.notTaken:
		return autoscalingv1beta1.ReasonSizeNotTaken,
			"The last new pod was created without the size in status.sizing, and no rollout starts. Check whether the admission policy " +
				"upright-sizing or its binding excludes the namespace, whether the API server disables MutatingAdmissionPolicy, " +
				"whether a webhook changes resources, and whether the API server reports errors of the policy."
	default:
		return "", ""
	}
}

// appliedToPods returns the condition for sizes that nothing keeps from being applied.
func (s *scope) appliedToPods() metav1.Condition {
	const conditionType = autoscalingv1beta1.ConditionApplied
	if s.waitsForTable() {
		return newCondition(conditionType, metav1.ConditionFalse, autoscalingv1beta1.ReasonSizeTablePending,
			"The size in status.sizing is being written to the SizeTable of the namespace.")
	}
	if s.scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeInitial {
		return newCondition(conditionType, metav1.ConditionTrue, autoscalingv1beta1.ReasonSizedAtCreation,
			"New pods are created with the size in status.sizing. spec.updateMode is Initial: running pods are not resized.")
	}
	condition := newCondition(conditionType, metav1.ConditionTrue, autoscalingv1beta1.ReasonSized,
		"All running pods have the recommended size or are within what spec.behavior allows.")
	if reason, message := s.result.summary(); reason != "" {
		condition = newCondition(conditionType, metav1.ConditionFalse, reason, message)
	}
	if s.isPinned() {
		condition.Message += " The annotation " + autoscalingv1beta1.AnnotationPin + " pins the size."
	}
	if len(s.scaledByHPA) > 0 && condition.Status == metav1.ConditionTrue {
		condition.Reason = autoscalingv1beta1.ReasonHPAOnSameResource
		condition.Message += " " + s.leftToHPA()
	}
	return condition
}

// belowTarget returns the quoted names of the containers that get less than their target.
func (s *scope) belowTarget() []string {
	var names []string
	for i := range s.status.Sizing {
		target := s.recommendedFor(s.status.Sizing[i].ContainerName)
		for resource, request := range s.status.Sizing[i].Requests {
			if request.Cmp(target[resource]) < 0 {
				names = append(names, strconv.Quote(s.status.Sizing[i].ContainerName))
				break
			}
		}
	}
	return names
}

// leftToHPA lists the resources that are left to HorizontalPodAutoscalers.
func (s *scope) leftToHPA() string {
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(s.scaledByHPA)) {
		all = append(all, fmt.Sprintf("%s is not sized because HorizontalPodAutoscaler %q scales on its utilization", resource, s.scaledByHPA[resource]))
	}
	return strings.Join(all, ", ") + "."
}
