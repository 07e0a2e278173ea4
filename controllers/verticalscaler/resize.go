package verticalscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=core,resources=pods/resize,verbs=patch

// defaultMaxRestartingPercent is the API's default.
const defaultMaxRestartingPercent = 25

// resizer resizes running pods in place.
type resizer struct {
	client.Client
	fieldOwner client.FieldOwner
	recorder   events.EventRecorder
	metrics    *metrics
	attempts   *attempts
}

// resize resizes the pods that are due to the sizes in the status. While no pod runs, no size is
// in force.
func (r *resizer) resize(ctx context.Context, s *scope) {
	running, sizes := s.runningPods(), s.newDueSizes(s.status.Sizing)
	r.resizeAll(ctx, s, running, func(pod *corev1.Pod) (sizing.Plan, bool) {
		due, isWaiting := sizes.of(pod)
		return sizing.PlanResize(pod, due), isWaiting
	})
	if len(running) == 0 {
		for i := range s.pods {
			if pods.IsLive(&s.pods[i]) {
				s.result.add(&s.pods[i], autoscalingv1beta1.ReasonPodsNotRunning, "")
			}
		}
	}
	r.recordResized(s, "the size in status.sizing")
}

// resizeAll resizes pods by their plans and adds what happened to each to the result. A failure
// does not stop the others. planOf also reports whether a pod waits for the stabilization window.
func (r *resizer) resizeAll(
	ctx context.Context, s *scope, resized []*corev1.Pod, planOf func(*corev1.Pod) (plan sizing.Plan, isWaiting bool),
) {
	known := r.attempts.of(s)
	known.prune(s.pods)
	restarts := sync.OnceValue(s.newRestartBudget) // Most reconciles restart nothing.
	var errs []error
	for _, pod := range resized {
		plan, isWaiting := planOf(pod)
		p := podResize{resizer: r, scope: s, pod: pod, known: known, restarts: restarts}
		reason, message, err := p.resize(ctx, plan)
		if err != nil {
			errs = append(errs, err)
		}
		if reason == "" && isWaiting {
			reason = autoscalingv1beta1.ReasonStabilizing
		}
		s.result.add(pod, reason, message)
	}
	s.fail(autoscalingv1beta1.ReasonApplyFailed,
		fmt.Sprintf("%d of %d pods could not be resized", len(errs), s.result.pods), errors.Join(errs...))
}

// podResize is the resize of one pod in a reconcile.
type podResize struct {
	*resizer
	scope    *scope
	pod      *corev1.Pod
	known    *targetAttempts
	restarts func() *restartBudget
}

// resize does the next step of a plan. It returns the reason and message for the result: why the
// pod does not have its size, or "" if it does.
func (p *podResize) resize(ctx context.Context, plan sizing.Plan) (reason, message string, err error) {
	if plan.Blocked != "" {
		return plan.Blocked, "", nil
	}
	state, message := sizing.Resizing(p.pod)
	changed, keepsMemory := p.keepMemory(state, plan.Containers)
	step, lowersMemory := sizing.NextStep(p.pod, changed)
	switch {
	case len(step) == 0 || lowersMemory && !canLower(state):
		return p.finish(state, message, keepsMemory)
	case sizing.Restarts(p.pod, step) && !p.restarts().take(p.pod):
		return autoscalingv1beta1.ReasonRestartsLimited, "", nil
	}
	var lowered []corev1.Container
	if !lowersMemory && canLower(state) {
		lowered = sizing.Lowered(p.pod, changed)
	}
	reason, message, err = p.request(ctx, step, lowered)
	if reason == reasonRequested && keepsMemory && state == autoscalingv1beta1.ReasonResizeFailed {
		reason = autoscalingv1beta1.ReasonMemoryInUse // The step puts the memory back.
	}
	return reason, message, err
}

// keepMemory returns a resize without what lowers memory limits, while the node of the pod cannot
// lower them, and whether there was any. If the node has just failed, the memory in force is put
// back: meanwhile, the kubelet would not do any other part of a resize.
func (p *podResize) keepMemory(state string, changed []corev1.Container) (kept []corev1.Container, keeps bool) {
	hasFailed := state == autoscalingv1beta1.ReasonResizeFailed && sizing.LowersMemory(p.pod)
	left := p.known.loweringLeft(p.pod.UID, p.scope.now)
	if hasFailed && left == 0 {
		known := p.known.of(p.pod.UID)
		known.lowering = known.lowering.next(p.scope.now, loweringPause, maxPause)
		left = known.lowering.length
	}
	if left == 0 {
		return changed, false
	}
	kept, keeps = sizing.KeepMemory(p.pod, changed, hasFailed, func(container string) bool {
		return sizing.IsSized(&p.scope.scaler.Spec, container, corev1.ResourceMemory) && p.scope.scaledByHPA[corev1.ResourceMemory] == ""
	})
	if keeps {
		p.scope.result.requeueIn(left)
	}
	return kept, keeps
}

// canLower reports whether memory may be lowered in the state of a pod: what was raised is in
// force, or waits for room on the node.
func canLower(state string) bool {
	return state == "" || state == autoscalingv1beta1.ReasonResizeDeferred || state == autoscalingv1beta1.ReasonResizeInfeasible
}

// finish returns the reason for a pod that gets no resize now.
func (p *podResize) finish(state, message string, keepsMemory bool) (string, string, error) {
	switch {
	case state == autoscalingv1beta1.ReasonResizing:
		left := p.known.of(p.pod.UID).stalledIn(p.pod, p.scope.now)
		if left <= 0 {
			return autoscalingv1beta1.ReasonResizeStalled, message, nil
		}
		p.scope.result.requeueIn(left)
	case state == "" && keepsMemory:
		return autoscalingv1beta1.ReasonMemoryInUse, "", nil
	case state == "":
		p.known.settle(p.pod.UID, p.scope.now)
	}
	return state, message, nil
}

// recordResized records one event for all pods that were resized.
func (r *resizer) recordResized(s *scope, size string) {
	if s.result.requested > 0 {
		r.recorder.Eventf(s.scaler, nil, corev1.EventTypeNormal, "Resized", "Resize",
			"Resized %d of %d pods of Deployment %q to %s.", s.result.requested, s.result.pods, s.scaler.Spec.DeploymentName, size)
	}
}
