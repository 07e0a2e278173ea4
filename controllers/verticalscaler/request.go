package verticalscaler

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// Causes in the API server's response to a resize that the node can never do
// (plugin/pkg/admission/podresize in k8s.io/kubernetes).
const (
	causeNodeCapacity        metav1.CauseType = "NodeCapacity"
	causeUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// unsupported are parts of the API server's messages about pods that can never be resized
// (ValidatePodResize in pkg/apis/core/validation of k8s.io/kubernetes). The API server validates
// the pod before it looks at the node, so these responses do not have a cause.
var unsupported = []string{
	"windows pods cannot be resized",
	"static pods cannot be resized",
	"node without support for resize",
	"node allocatable resource claims cannot be resized",
}

// request sends a step of a resize. If the API server refuses it, the resources are tried one by
// one: a quota may have room for one of them. Then the memory that the next step lowers is tried: a
// quota, a LimitRange or the node may need it for what this step raises.
func (p *podResize) request(ctx context.Context, step, lowered []corev1.Container) (reason, message string, err error) {
	reason, message, err = p.send(ctx, step)
	switch reason {
	case autoscalingv1beta1.ReasonResizeRefused:
	case autoscalingv1beta1.ReasonResizeInfeasible:
		return p.makeRoom(ctx, lowered, reason, message)
	default:
		return reason, message, err
	}
	var parts [][]corev1.Container
	cpu, memory := sizing.Part(p.pod, step, corev1.ResourceCPU), sizing.Part(p.pod, step, corev1.ResourceMemory)
	if len(cpu) > 0 && len(memory) > 0 {
		parts = append(parts, cpu, memory)
	}
	if len(lowered) > 0 {
		parts = append(parts, lowered)
	}
	for _, part := range parts {
		if partReason, _, err := p.send(ctx, part); partReason == reasonRequested || err != nil {
			return partReason, "", err
		}
	}
	return reason, message, nil
}

// makeRoom lowers memory if the node is too small for what a step raises. It returns the refusal of
// that step if there is nothing to lower.
func (p *podResize) makeRoom(
	ctx context.Context, lowered []corev1.Container, reason, message string,
) (string, string, error) {
	if len(lowered) == 0 {
		return reason, message, nil
	}
	sent, _, err := p.send(ctx, lowered)
	switch {
	case err != nil:
		return sent, "", err
	case sent != reasonRequested:
		return reason, message, nil
	}
	p.known.of(p.pod.UID).refused = nil // Otherwise, a rollout would replace the pod meanwhile.
	return sent, "", nil
}

// send sends one request to resize the pod, and returns the reason and message for the result. A
// refused resize is repeated after a pause, or when it differs.
func (p *podResize) send(ctx context.Context, containers []corev1.Container) (reason, message string, err error) {
	patch, err := newResizePatch(p.pod, containers)
	if err != nil {
		return autoscalingv1beta1.ReasonApplyFailed, "", err
	}
	if known := p.known.byPod[p.pod.UID]; known != nil {
		if refused := known.refusal(patch.resources, patch.body, p.scope.now); refused != nil {
			p.scope.result.requeueIn(refused.left(p.scope.now))
			return refused.reason, refused.message, nil
		}
	}
	err = p.SubResource("resize").Patch(ctx, p.pod.DeepCopy(),
		client.RawPatch(types.StrategicMergePatchType, []byte(patch.body)), p.fieldOwner)
	switch {
	case err == nil:
		p.metrics.resizes.WithLabelValues(resizeAccepted).Inc()
		log.FromContext(ctx).Info("Resized a pod", "Pod", p.pod.Name)
		return reasonRequested, "", nil
	case isGone(err, p.pod):
		return reasonGone, "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		log.FromContext(ctx).Info("The API server refused to resize a pod", "Pod", p.pod.Name, "reason", err.Error())
		p.metrics.resizes.WithLabelValues(resizeRefused).Inc()
		refused := p.refuse(patch, err)
		return refused.reason, refused.message, nil
	default:
		return autoscalingv1beta1.ReasonApplyFailed, "", fmt.Errorf("resize pod %s: %w", p.pod.Name, err)
	}
}

// refuse stores a refusal and returns it.
func (p *podResize) refuse(patch resizePatch, err error) refusal {
	reason, first := reasonOf(err)
	resources := patch.resources
	if reason == autoscalingv1beta1.ReasonResizeUnsupported {
		resources = anyResources
	}
	refused := refusal{patch: patch.body, reason: reason, message: refusalText(err)}
	pause := p.known.of(p.pod.UID).refuse(resources, refused, p.scope.now, first)
	p.scope.result.requeueIn(pause)
	return refused
}

// isGone reports whether an error says that a pod no longer exists. If the API server does not
// serve the subresource, it responds with the same status.
func isGone(err error, pod *corev1.Pod) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == pod.Name
}

// reasonOf returns the reason of the condition Applied for a refused resize, and how long the
// resize is not repeated at first.
func reasonOf(refusal error) (reason string, first time.Duration) {
	switch {
	case apierrors.HasStatusCause(refusal, causeNodeCapacity):
		return autoscalingv1beta1.ReasonResizeInfeasible, infeasiblePause
	case apierrors.HasStatusCause(refusal, causeUnsupportedPlatform), apierrors.IsNotFound(refusal):
		return autoscalingv1beta1.ReasonResizeUnsupported, infeasiblePause
	}
	for _, text := range unsupported {
		if strings.Contains(refusal.Error(), text) {
			return autoscalingv1beta1.ReasonResizeUnsupported, infeasiblePause
		}
	}
	return autoscalingv1beta1.ReasonResizeRefused, refusalPause
}

// usedAmounts matches what a quota's message reports as used. It changes all the time.
var usedAmounts = regexp.MustCompile(`, used: \S*, limited:`)

// refusalText returns the API server's message in one line, without what differs with each try.
func refusalText(refusal error) string {
	return usedAmounts.ReplaceAllString(strings.Join(strings.Fields(refusal.Error()), " "), ", limited:")
}
