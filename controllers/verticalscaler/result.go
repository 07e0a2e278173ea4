package verticalscaler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// Reasons that are no reasons of a condition.
const (
	// reasonRequested counts a pod whose resize was requested in this reconcile.
	reasonRequested = "requested"
	// reasonGone is that of a pod that no longer exists, and does not count.
	reasonGone = "gone"
)

// result counts the pods of a target by what keeps them from having their size.
type result struct {
	pods      int
	requested int // Pods whose resize was requested in this reconcile.
	byReason  map[string]int
	message   map[string]string // Message of the first pod of each reason.
	requeue   time.Duration     // 0 if an event triggers the next reconcile.
	// newestStuck is when the newest of the pods to replace was created.
	newestStuck time.Time
}

func newResult() *result {
	return &result{byReason: map[string]int{}, message: map[string]string{}}
}

// add counts a pod. Without a reason, the pod has its size.
func (r *result) add(pod *corev1.Pod, reason, message string) {
	if reason == reasonGone {
		return
	}
	r.pods++
	switch reason {
	case "":
		return
	case reasonRequested:
		r.requested++
		reason = autoscalingv1beta1.ReasonResizing
	}
	r.byReason[reason]++
	if slices.Contains(replaceable, reason) && pod.CreationTimestamp.After(r.newestStuck) {
		r.newestStuck = pod.CreationTimestamp.Time
	}
	if r.message[reason] == "" && message != "" {
		r.message[reason] = fmt.Sprintf("pod %s: %s", pod.Name, message)
	}
}

// replaceable are the reasons with which a pod cannot be resized in place but can be replaced.
var replaceable = []string{
	autoscalingv1beta1.ReasonQoSClassFixed,
	autoscalingv1beta1.ReasonResizeUnsupported,
	autoscalingv1beta1.ReasonResizeInfeasible,
}

// toReplace returns the number of pods that only a rollout can size, and the first reason.
func (r *result) toReplace() (count int, reason string) {
	for _, candidate := range replaceable {
		if r.byReason[candidate] > 0 && reason == "" {
			reason = candidate
		}
		count += r.byReason[candidate]
	}
	return count, reason
}

// reasonToReplace returns why a rollout is to replace the pods, or "" if less than half of them can
// only be sized by a rollout. The others would be replaced without need.
func (r *result) reasonToReplace() string {
	count, reason := r.toReplace()
	if 2*count < r.pods {
		return ""
	}
	return reason
}

// isSettled reports whether all pods have a size that they may keep for now.
func (r *result) isSettled() bool {
	for reason := range r.byReason {
		if reason != autoscalingv1beta1.ReasonStabilizing {
			return false
		}
	}
	return r.pods > 0
}

// replaced moves the pods to replace to the reason of what blocks their rollout.
func (r *result) replaced(block sizing.Block) {
	count, _ := r.toReplace()
	for _, candidate := range replaceable {
		delete(r.byReason, candidate)
	}
	r.byReason[block.Reason] = count
	r.message[block.Reason] = block.Detail
	r.requeueIn(block.RequeueAfter)
}

// requeueIn requeues the scaler after a time at the latest; 0 changes nothing.
func (r *result) requeueIn(after time.Duration) {
	if after > 0 && (r.requeue == 0 || after < r.requeue) {
		r.requeue = after
	}
}

// explanations describe each reason for the pods that it counts. The first reason that
// counts a pod becomes that of the condition: those that a user must act on come first.
var explanations = []struct {
	reason, explanation string
	// requeueAfter is the time after which to check again if no event reports a change.
	requeueAfter time.Duration
}{
	{autoscalingv1beta1.ReasonResizeRefused, "cannot be resized because the API server refuses it", 0},
	{autoscalingv1beta1.ReasonQoSClassFixed, "cannot be resized in place because their quality of service class would change: " +
		"set different requests and limits in the Deployment, or restart its pods (kubectl rollout restart)", 0},
	{autoscalingv1beta1.ReasonPodLevelResources, "have pod-level resources, which are not sized: " +
		"remove spec.resources from the pod template", 0},
	{autoscalingv1beta1.ReasonLimitTooLow, "have a lower limit than their new request: " +
		"raise the limit in the Deployment, or restart its pods (kubectl rollout restart) if they do not have its limits", 0},
	{autoscalingv1beta1.ReasonResizeUnsupported, "run on nodes that do not support in-place resize: it needs Linux and Kubernetes 1.33 or later", 0},
	{autoscalingv1beta1.ReasonResizeInfeasible, "would be too large for their nodes: lower maxAllowed, or restart the pods (kubectl rollout restart)", 0},
	{autoscalingv1beta1.ReasonResizeFailed, "could not be resized by their nodes. The kubelet keeps retrying", 0},
	{autoscalingv1beta1.ReasonResizeStalled, "have waited for their nodes to resize them for more than 5 minutes: " +
		"check whether the nodes are ready (kubectl get nodes)", 0},
	{autoscalingv1beta1.ReasonMemoryInUse, "use more memory than their new limit, page cache included, and keep their memory. " +
		"The controller tries again later: set minAllowed or restart the pods", 0},
	{autoscalingv1beta1.ReasonResizeDeferred, "wait until their nodes have room: add nodes or lower maxAllowed", 0},
	{autoscalingv1beta1.ReasonRolloutIneffective, "cannot be resized in place, and the last rollout did not give them their size. No further one " +
		"starts until the size, the Deployment's pod template or the admission policy changes", 0},
	{autoscalingv1beta1.ReasonNoNodeFits, "cannot be resized in place, and no rollout starts because no node could hold a new pod: " +
		"lower maxAllowed or add larger nodes", time.Minute},
	{autoscalingv1beta1.ReasonRolloutNeedsOutage, "cannot be resized in place, and a rollout would leave no pod running: " +
		"change the Deployment's strategy, or set spec.behavior.rollout.allowOutage", 0},
	{autoscalingv1beta1.ReasonRolloutAnnotationOwned, "cannot be resized in place, and the annotation that starts a rollout is set by somebody else: " +
		"restart the pods (kubectl rollout restart)", 0},
	{autoscalingv1beta1.ReasonDeploymentPaused, "cannot be resized in place, and the Deployment is paused: resume it", 0},
	{autoscalingv1beta1.ReasonRolloutNeedsHistory, "cannot be resized in place and wait for more usage history before a rollout, " +
		"see spec.behavior.rollout.minimumHistorySeconds", 0},
	{autoscalingv1beta1.ReasonRolloutQueued, "cannot be resized in place and wait for other rollouts in the cluster", 0},
	{autoscalingv1beta1.ReasonRolloutCooldown, "cannot be resized in place and wait for the cooldown after the last rollout, " +
		"see spec.behavior.rollout.cooldownSeconds", 0},
	{autoscalingv1beta1.ReasonRolloutInProgress, "cannot be resized in place and are replaced by the rollout in progress", 0},
	{autoscalingv1beta1.ReasonRestartsLimited, "wait for the restart of containers in other pods, see spec.behavior.maxRestartingPercent", 0},
	{autoscalingv1beta1.ReasonResizing, "are being resized", 0},
	{autoscalingv1beta1.ReasonPodsNotRunning, "have containers that do not run, so that their size is not in force", 0},
	{autoscalingv1beta1.ReasonResourcesNotReported, "run on nodes that do not report which resources are in force: " +
		"it needs Kubernetes 1.33 or later", 0},
	{autoscalingv1beta1.ReasonStabilizing, "wait for the stabilization window, see spec.behavior", time.Minute},
}

// summary returns the most important reason and its message, or "" if all pods have their size.
func (r *result) summary() (reason, message string) {
	for _, e := range explanations {
		if count := r.byReason[e.reason]; count > 0 {
			message = fmt.Sprintf("%d of %d pods %s", count, r.pods, e.explanation)
			if detail := r.message[e.reason]; detail != "" {
				message += " (" + detail + ")"
			}
			return e.reason, message + "."
		}
	}
	return "", ""
}

// requeueAfter returns the time after which to reconcile again, or 0 if an event triggers it.
func (r *result) requeueAfter() time.Duration {
	soonest := r.requeue
	for _, e := range explanations {
		if r.byReason[e.reason] > 0 && e.requeueAfter > 0 && (soonest == 0 || e.requeueAfter < soonest) {
			soonest = e.requeueAfter
		}
	}
	return soonest
}
