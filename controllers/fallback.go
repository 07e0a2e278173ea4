package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

const (
	// fallbackTime is how long new pods do without the recommended size where that kept one from
	// being created or scheduled. Nothing tells when there is room: a quota's use and that of
	// nodes change all the time.
	fallbackTime = time.Hour
	// maxFallbackTime is the longest: each that follows upon another is twice as long, so that a
	// Deployment is not rolled out anew every hour in vain.
	maxFallbackTime = 24 * time.Hour
	// nodePatience is how long a pod may wait for a node that is large enough for it but full:
	// where nodes are added for pods that wait, one usually comes in this time.
	nodePatience = 3 * time.Minute
	// quotaPatience is how long a quota may refuse pods that are no larger than their template
	// until those that run give back what they have more. Refused pods are tried again and again
	// (pkg/controller/replicaset in k8s.io/kubernetes), more and more seldom.
	quotaPatience = 30 * time.Second
	// exceededQuota is how the API server begins to say that a ResourceQuota refuses something
	// (pkg/admission/plugin/resourcequota in k8s.io/apiserver).
	exceededQuota = "exceeded quota"
)

// fallBack returns what new pods get of sizes, and the fallback for which that is less. A spec
// that has changed is tried at once.
func fallBack(
	scaler *autoscalingv1beta1.VerticalScaler, sizes []autoscalingv1beta1.ContainerSizing, found findings, now time.Time,
) ([]autoscalingv1beta1.ContainerSizing, *autoscalingv1beta1.Fallback) {
	less := noMoreThanTemplate(sizes, found)
	if equality.Semantic.DeepEqual(less, sizes) {
		return sizes, nil
	}
	before := scaler.Status.Fallback
	if scaler.Status.ObservedGeneration != scaler.Generation {
		before = nil
	}
	if isInForce(before, now) {
		return less, before
	}
	length := fallbackTime
	if before != nil {
		lasted := before.Until.Sub(before.Since.Time)
		length = min(2*lasted, maxFallbackTime)
		if !now.Before(before.Until.Add(lasted)) { // It is too long ago.
			before, length = nil, fallbackTime
		}
	}
	reason, message := obstacle(found, now)
	if reason == "" {
		return sizes, before
	}
	since := metav1.NewTime(now).Rfc3339Copy()
	return less, &autoscalingv1beta1.Fallback{
		Reason: reason, Message: message, Since: since, Until: metav1.NewTime(since.Add(length)),
	}
}

// isInForce reports whether there is a fallback that is not over yet.
func isInForce(fallback *autoscalingv1beta1.Fallback, now time.Time) bool {
	return fallback != nil && now.Before(fallback.Until.Time)
}

// noMoreThanTemplate returns sizes without what the target's template does not ask for itself.
func noMoreThanTemplate(sizes []autoscalingv1beta1.ContainerSizing, found findings) []autoscalingv1beta1.ContainerSizing {
	return sizing.NoMoreThanTemplate(&found.deployment.Spec.Template.Spec, sizes, found.limitRanges)
}

// obstacle returns what new pods that are larger than the template run into, as a reason of
// the condition Applied, and what is said of it; nothing where there is none.
func obstacle(found findings, now time.Time) (reason, message string) {
	if refused := quotaRefusal(found.deployment); refused != "" {
		return autoscalingv1beta1.ReasonQuotaExceeded, refused
	}
	for _, pod := range held(found) {
		if patienceWith(pod, found, now) <= 0 {
			return autoscalingv1beta1.ReasonUnschedulable, unschedulableCondition(pod).Message
		}
	}
	return "", ""
}

// quotaRefusal returns how the API server refused new pods of a Deployment for a ResourceQuota,
// nothing where it did not.
func quotaRefusal(d *appsv1.Deployment) string {
	for i := range d.Status.Conditions {
		condition := &d.Status.Conditions[i]
		if condition.Type != appsv1.DeploymentReplicaFailure || condition.Status != corev1.ConditionTrue {
			continue
		}
		// What goes before it names a pod, and would be said anew of each.
		if _, said, isQuota := strings.Cut(condition.Message, exceededQuota); isQuota {
			return exceededQuota + said
		}
	}
	return ""
}

// isOfSize reports whether a quota refused pods for their CPU or memory. One that counts them
// would refuse as many whatever others give back. (Only the first refusal is told until a pod
// has been created, so that another quota may refuse them by now.)
func isOfSize(refusal string) bool {
	_, requested, _ := strings.Cut(refusal, "requested: ")
	requested, _, _ = strings.Cut(requested, ", used: ")
	for amount := range strings.SplitSeq(requested, ",") {
		name, _, _ := strings.Cut(amount, "=")
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
			corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory:
			return true
		}
	}
	return false
}

// planRestore returns how a pod gets what the target's template says where it has more.
func planRestore(pod *corev1.Pod, found findings) sizing.Plan {
	return sizing.PlanRestore(pod, &found.deployment.Spec.Template.Spec, found.limitRanges)
}

// unschedulable returns the pods for which there is no node, of those of the newest template:
// a pod of an older one has the size that was right for that.
func unschedulable(pods []corev1.Pod) []*corev1.Pod {
	latest := newest(pods)
	var found []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if unschedulableCondition(pod) != nil && pod.DeletionTimestamp.IsZero() &&
			pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == latest.Labels[appsv1.DefaultDeploymentUniqueLabelKey] {
			found = append(found, pod)
		}
	}
	return found
}

// held returns the pods for which there is no node and that have more than the target's template
// says, so that there might be one otherwise.
func held(found findings) []*corev1.Pod {
	if found.deployment == nil {
		return nil
	}
	return slices.DeleteFunc(unschedulable(found.pods), func(pod *corev1.Pod) bool {
		return len(planRestore(pod, found).Containers) == 0
	})
}

// patienceWith returns for how much longer a pod may wait for a node: not at all where none is
// large enough for it.
func patienceWith(pod *corev1.Pod, found findings, now time.Time) time.Duration {
	for name, amount := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		if most, isKnown := found.largestNode[name]; !isKnown || amount.Cmp(most) > 0 {
			return 0
		}
	}
	return unschedulableCondition(pod).LastTransitionTime.Add(nodePatience).Sub(now)
}

// patience returns the time after which the first of the pods that wait for a node may have to
// be given less; 0 where none waits.
func patience(found findings, now time.Time) time.Duration {
	first := time.Duration(0)
	for _, pod := range held(found) {
		if left := patienceWith(pod, found, now); left > 0 && (first == 0 || left < first) {
			first = left
		}
	}
	return first
}

// unschedulableCondition returns the condition that says why there is no node for a pod, nil
// where there may be one.
func unschedulableCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return condition
		}
	}
	return nil
}

// restore gives pods for which there is no node the size that their template says, so that
// they need not be replaced. All others are left alone until the fallback is over, unless they
// leave new pods no room in a quota even so.
func (r *resizer) restore(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, fallback *autoscalingv1beta1.Fallback, found findings, now time.Time,
) (*resizes, error) {
	pods, again := unschedulable(found.pods), fallback.Until.Sub(now)
	if isOfSize(quotaRefusal(found.deployment)) {
		if left := fallback.Since.Add(quotaPatience).Sub(now); left > 0 {
			again = min(again, left)
		} else {
			pods = append(pods, runningPods(found.pods)...)
		}
	}
	outcome, err := r.resizeAll(ctx, pods, restartsAllowed(scaler, found.pods), now, func(pod *corev1.Pod) (sizing.Plan, bool) {
		return planRestore(pod, found), false
	})
	outcome.again = max(again, time.Millisecond)
	r.tell(scaler, outcome, "what its template asks for")
	return outcome, err
}

// fallbackMessage says what to do about a fallback, and when it is over.
func fallbackMessage(fallback *autoscalingv1beta1.Fallback) string {
	return fmt.Sprintf("%s (%s). Until %s new pods get no more than the Deployment's template asks for, and running ones keep their "+
		"size; then, or when spec is changed, the recommended size is tried again.",
		obstacleAdvice(fallback.Reason), fallback.Message, fallback.Until.UTC().Format(time.RFC3339))
}

// obstacleAdvice says what to do about an obstacle.
func obstacleAdvice(reason string) string {
	if reason == autoscalingv1beta1.ReasonQuotaExceeded {
		return "A ResourceQuota refuses new pods at their size: raise it or lower maxAllowed"
	}
	return "No node has room for new pods at their size: add nodes or lower maxAllowed"
}

// pinnedObstacle returns what new pods run into at a pinned size, and what to do about it;
// nothing where there is none.
func pinnedObstacle(
	scaler *autoscalingv1beta1.VerticalScaler, sizes []autoscalingv1beta1.ContainerSizing, found findings, now time.Time,
) (reason, message string) {
	if !isPinned(scaler) || found.deployment == nil || equality.Semantic.DeepEqual(noMoreThanTemplate(sizes, found), sizes) {
		return "", ""
	}
	reason, said := obstacle(found, now)
	if reason == "" {
		return "", ""
	}
	return reason, fmt.Sprintf("%s, or remove the annotation %s, which pins it (%s).",
		obstacleAdvice(reason), autoscalingv1beta1.AnnotationPin, said)
}
