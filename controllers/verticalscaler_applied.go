package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// setSizing puts into the status what a new pod gets. It stays while the target is away.
func setSizing(
	scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus, found findings, now time.Time,
) {
	switch {
	case found.rival != nil || scaler.Spec.Suspend || scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeOff:
		status.Sizing, status.Fallback = nil, nil
	case isPinned(scaler):
		status.Fallback = nil
	case len(status.Recommendations) == 0:
		status.Sizing, status.Fallback = nil, nil
	case found.deployment == nil:
	default:
		status.Sizing, status.Fallback = fallBack(scaler, sizesOf(scaler, status.Recommendations, found), found, now)
	}
}

// isPinned reports whether a scaler's sizing is to stay as it is.
func isPinned(scaler *autoscalingv1beta1.VerticalScaler) bool {
	return scaler.Annotations[autoscalingv1beta1.AnnotationPin] == "true"
}

// sizesOf returns the size of each container of the template that has one. A container that
// is not in the template, since an admission plugin has added it, belongs to somebody else.
func sizesOf(
	scaler *autoscalingv1beta1.VerticalScaler, recommended []autoscalingv1beta1.ContainerRecommendation, found findings,
) []autoscalingv1beta1.ContainerSizing {
	template := &found.deployment.Spec.Template.Spec
	targets := map[string]corev1.ResourceList{}
	for _, container := range sizable(&corev1.Pod{Spec: *template}) {
		target := maps.Clone(targetOf(recommended, container.Name))
		maps.DeleteFunc(target, func(name corev1.ResourceName, _ resource.Quantity) bool { return found.horizontal[name] != "" })
		targets[container.Name] = target
	}
	return sizing.Template(&scaler.Spec, template, targets, found.limitRanges)
}

// recommendationOf returns what is recommended for a container, nil where nothing is.
func recommendationOf(
	recommended []autoscalingv1beta1.ContainerRecommendation, container string,
) *autoscalingv1beta1.ContainerRecommendation {
	for i := range recommended {
		if recommended[i].ContainerName == container {
			return &recommended[i]
		}
	}
	return nil
}

// targetOf returns what a container should request, nil where nothing is recommended for it.
func targetOf(recommended []autoscalingv1beta1.ContainerRecommendation, container string) corev1.ResourceList {
	if found := recommendationOf(recommended, container); found != nil {
		return found.Target
	}
	return nil
}

// applied says whether pods get the recommended size, and if not, why.
func applied(
	scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus, found findings, now time.Time,
) metav1.Condition {
	sizes := status.Sizing
	obstacle, advice := pinnedObstacle(scaler, sizes, found, now)
	condition := metav1.Condition{Type: autoscalingv1beta1.ConditionApplied, Status: metav1.ConditionFalse}
	switch {
	case found.rival != nil:
		condition.Reason = autoscalingv1beta1.ReasonConflicted
		condition.Message = fmt.Sprintf("VerticalScaler %q is older and sizes the pods.", found.rival.Name)
	case scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeOff:
		condition.Reason = autoscalingv1beta1.ReasonUpdateModeOff
		condition.Message = "spec.updateMode is Off: sizes are recommended only."
	case scaler.Spec.Suspend:
		condition.Reason = autoscalingv1beta1.ReasonSuspended
		condition.Message = "spec.suspend is set: new pods are born as the Deployment says, and running ones keep their size."
	case found.target == nil:
		condition.Reason = autoscalingv1beta1.ReasonDeploymentNotFound
		condition.Message = "There are no pods to size: they get the size in status.sizing when the Deployment is created."
	case isInForce(status.Fallback, now):
		condition.Reason, condition.Message = status.Fallback.Reason, fallbackMessage(status.Fallback)
	case obstacle != "":
		condition.Reason, condition.Message = obstacle, advice
	case len(sizes) == 0 && len(found.horizontal) > 0:
		condition.Reason = autoscalingv1beta1.ReasonHPAOnSameResource
		condition.Message = "Nothing is left to size: " + leftToHPA(found)
	case len(sizes) == 0:
		condition.Reason = autoscalingv1beta1.ReasonNothingToApply
		condition.Message = "No container has a size: nothing is recommended for those that spec.containerPolicies size."
	case found.policyMissing:
		condition.Reason = autoscalingv1beta1.ReasonAdmissionPolicyMissing
		condition.Message = "The API server does not size new pods: install the admission policy (kubectl apply -k deploy/admission), " +
			"for which it must serve MutatingAdmissionPolicies of admissionregistration.k8s.io/v1, as Kubernetes 1.36 does."
	case scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeInitial:
		condition.Status = metav1.ConditionTrue
		condition.Reason = autoscalingv1beta1.ReasonSizedAtBirth
		condition.Message = "New pods are born at the size in status.sizing; spec.updateMode Initial leaves running ones alone."
	default:
		if condition.Reason, condition.Message = found.resized.first(); condition.Reason == "" {
			condition.Status = metav1.ConditionTrue
			condition.Reason = autoscalingv1beta1.ReasonSized
			condition.Message = "All pods have the recommended size, or one that spec.behavior leaves them."
		}
		if isPinned(scaler) {
			condition.Message += " It is pinned by the annotation " + autoscalingv1beta1.AnnotationPin + "."
		}
		if len(found.horizontal) > 0 && condition.Status == metav1.ConditionTrue {
			condition.Reason = autoscalingv1beta1.ReasonHPAOnSameResource
			condition.Message += " " + leftToHPA(found)
		}
	}
	if less := lessThanTargets(sizes, status.Recommendations); condition.Status == metav1.ConditionTrue && !isPinned(scaler) && len(less) > 0 {
		condition.Message += fmt.Sprintf(" Less than their targets, as a limit or a LimitRange allows no more, get: %s.", strings.Join(less, ", "))
	}
	return condition
}

// lessThanTargets returns, in quotes, the containers that get less than is recommended for them.
func lessThanTargets(sizes []autoscalingv1beta1.ContainerSizing, recommended []autoscalingv1beta1.ContainerRecommendation) []string {
	var names []string
	for i := range sizes {
		target := targetOf(recommended, sizes[i].ContainerName)
		for name, request := range sizes[i].Requests {
			if request.Cmp(target[name]) < 0 {
				names = append(names, strconv.Quote(sizes[i].ContainerName))
				break
			}
		}
	}
	return names
}

// leftToHPA says which resources are left to which HorizontalPodAutoscalers.
func leftToHPA(found findings) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(found.horizontal)) {
		all = append(all, fmt.Sprintf("%s is left to HorizontalPodAutoscaler %q, which scales by its utilization", name, found.horizontal[name]))
	}
	return strings.Join(all, ", ") + "."
}
