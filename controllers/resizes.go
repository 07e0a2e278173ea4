package controllers

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// resizes says how the pods of a target stand.
type resizes struct {
	pods     int
	asked    int // Pods that were resized just now.
	byReason map[string]int
	message  map[string]string // What is said of the first pod of each reason.
	again    time.Duration     // After which to look again; 0 where an event will tell.
}

// replaceable are the reasons for which a pod cannot be resized in place, and a new one can.
var replaceable = []string{
	autoscalingv1beta1.ReasonQoSClassFixed,
	autoscalingv1beta1.ReasonResizeUnsupported,
	autoscalingv1beta1.ReasonResizeInfeasible,
}

// stuck returns how many pods can get their size by being replaced alone, and the first reason
// for it.
func (r *resizes) stuck() (count int, because string) {
	for _, reason := range replaceable {
		if r.byReason[reason] > 0 && because == "" {
			because = reason
		}
		count += r.byReason[reason]
	}
	return count, because
}

// replace says of the stuck pods that they are replaced, or why not yet.
func (r *resizes) replace(by string, again time.Duration) {
	if by == "" {
		return
	}
	stuck, _ := r.stuck()
	for _, reason := range replaceable {
		delete(r.byReason, reason)
	}
	r.byReason[by] = stuck
	r.again = again
}

// lookAgainIn has the target looked at again after a time, unless that is 0.
func (r *resizes) lookAgainIn(after time.Duration) {
	if after > 0 && (r.again == 0 || after < r.again) {
		r.again = after
	}
}

func newResizes() *resizes {
	return &resizes{byReason: map[string]int{}, message: map[string]string{}}
}

// add counts a pod. Without a reason it has its size.
func (r *resizes) add(reason string, pod *corev1.Pod, message string) {
	r.pods++
	if reason == "" {
		return
	}
	r.byReason[reason]++
	if r.message[reason] == "" && message != "" {
		r.message[reason] = fmt.Sprintf("pod %s: %s", pod.Name, message)
	}
}

// advices say what a reason means for the pods of which it is said, the first of which counts
// first: what a user must do something about goes before what takes time alone.
var advices = []struct {
	reason, advice string
	// retry is the time after which to look again, where nothing can be watched.
	retry time.Duration
}{
	{autoscalingv1beta1.ReasonResizeRefused, "cannot be resized, the API server refuses it", refusalPause},
	{autoscalingv1beta1.ReasonQoSClassFixed, "cannot be resized in place, since their quality of service class would change: " +
		"give their containers requests and limits that differ, or roll the Deployment out anew", 0},
	{autoscalingv1beta1.ReasonPodLevelResources, "have resources for the pod as a whole, which are left alone: " +
		"remove spec.resources from the pod template to have the containers sized", 0},
	{autoscalingv1beta1.ReasonResizeUnsupported, "run on nodes that cannot resize them: it takes Linux and Kubernetes 1.33 or later", 0},
	{autoscalingv1beta1.ReasonResizeInfeasible, "are too large for their nodes: lower maxAllowed, or roll the Deployment out anew", 0},
	{autoscalingv1beta1.ReasonResizeFailed, "could not be resized by their nodes, which go on trying: if memory is to be lowered that is in use, set minAllowed or restart them", 0},
	{autoscalingv1beta1.ReasonResizeDeferred, "wait until their nodes have room: if that takes too long, make room or lower maxAllowed", 0},
	{autoscalingv1beta1.ReasonRolloutNeedsOutage, "cannot be resized in place, and none would run while they are replaced: " +
		"allow it with spec.behavior.rollout.allowOutage, or give the Deployment a surge", 0},
	{autoscalingv1beta1.ReasonDeploymentPaused, "cannot be resized in place, and the Deployment is paused: resume it to have them replaced", 0},
	{autoscalingv1beta1.ReasonRolloutCooldown, "cannot be resized in place and are replaced when the last rollout is long enough ago, " +
		"see spec.behavior.rollout.cooldownSeconds", 0},
	{autoscalingv1beta1.ReasonRolloutInProgress, "cannot be resized in place and are replaced when the Deployment's rollout gets to them", 0},
	{autoscalingv1beta1.ReasonRestartsLimited, "wait for others in which a container restarts, see spec.behavior.maxRestartingPercent", 0},
	{autoscalingv1beta1.ReasonResizing, "are being resized", 0},
	{autoscalingv1beta1.ReasonStabilizing, "follow the recommendation when it has been off for long enough, see spec.behavior", time.Minute},
}

// first returns the reason that counts first and what it means, nothing where all pods have
// their size.
func (r *resizes) first() (reason, message string) {
	for _, a := range advices {
		if count := r.byReason[a.reason]; count > 0 {
			message = fmt.Sprintf("%d of %d pods %s", count, r.pods, a.advice)
			if said := r.message[a.reason]; said != "" {
				message += " (" + said + ")"
			}
			return a.reason, message + "."
		}
	}
	return "", ""
}

// retryAfter returns the time after which to look again, 0 where an event will tell.
func (r *resizes) retryAfter() time.Duration {
	soonest := r.again
	for _, a := range advices {
		if r.byReason[a.reason] > 0 && a.retry > 0 && (soonest == 0 || a.retry < soonest) {
			soonest = a.retry
		}
	}
	return soonest
}
