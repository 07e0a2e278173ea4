package verticalscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=core,resources=pods/resize,verbs=patch

// Causes in the API server's response to a resize that the node can never do
// (plugin/pkg/admission/podresize in k8s.io/kubernetes).
const (
	causeNodeCapacity        metav1.CauseType = "NodeCapacity"
	causeUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

const (
	// refusalPause is how long a resize that the API server refused is not repeated.
	refusalPause = 5 * time.Minute
	// infeasiblePause is how long a resize that the node cannot do is not repeated.
	infeasiblePause = time.Hour
	// defaultMaxRestartingPercent is the API's default.
	defaultMaxRestartingPercent = 25
)

// resizer resizes running pods in place.
type resizer struct {
	client.Client
	fieldOwner client.FieldOwner
	recorder   events.EventRecorder
	metrics    *metrics

	mutex   sync.Mutex
	refused map[types.UID]refusal // By pod.
}

// refusal is a resize that the API server refused.
type refusal struct {
	patch   string
	reason  string // Of the condition Applied.
	message string
	until   time.Time
}

// resize resizes the pods that are due to the sizes in the status.
func (r *resizer) resize(ctx context.Context, s *scope) {
	killed := s.recentlyKilled()
	r.resizeAll(ctx, s, pods.Running(s.pods), func(pod *corev1.Pod) (sizing.Plan, bool) {
		due, isWaiting := s.due(pod, killed)
		return sizing.PlanResize(pod, due), isWaiting
	})
	r.recordResized(s, "the size in status.sizing")
}

// restore resizes unschedulable pods to the size of their template during a fallback, so that
// they need not be replaced. Running pods keep their size, unless a quota refuses new pods even
// at the template's size.
func (r *resizer) restore(ctx context.Context, s *scope) {
	restored, requeueAfter := pods.Unschedulable(s.pods), s.status.Fallback.Until.Sub(s.now)
	if isRefusedForSize(quotaRefusal(s.deployment)) {
		if left := s.status.Fallback.Since.Add(quotaGracePeriod).Sub(s.now); left > 0 {
			requeueAfter = min(requeueAfter, left)
		} else {
			restored = append(restored, pods.Running(s.pods)...)
		}
	}
	r.resizeAll(ctx, s, restored, func(pod *corev1.Pod) (sizing.Plan, bool) { return s.planRestore(pod), false })
	s.result.requeueIn(max(requeueAfter, time.Millisecond))
	r.recordResized(s, "the size of its template")
}

// resizeAll resizes pods by their plans and adds what happened to each to the result. A failure
// does not stop the others. planOf also reports whether a pod waits for the stabilization window.
func (r *resizer) resizeAll(
	ctx context.Context, s *scope, resized []*corev1.Pod, planOf func(*corev1.Pod) (plan sizing.Plan, isWaiting bool),
) {
	restarts := s.restartsAllowed()
	var errs []error
	for _, pod := range resized {
		plan, isWaiting := planOf(pod)
		switch {
		case plan.Blocked != "":
			s.result.add(pod, plan.Blocked, "")
		case len(plan.Containers) > 0 && plan.Restarts && restarts <= 0:
			s.result.add(pod, autoscalingv1beta1.ReasonRestartsLimited, "")
		case len(plan.Containers) > 0:
			if plan.Restarts {
				restarts--
			}
			reason, message, err := r.resizePod(ctx, pod, plan.Containers, s.now)
			if err != nil {
				errs = append(errs, err)
			}
			s.result.add(pod, reason, message)
		default:
			reason, message := sizing.Resizing(pod)
			if reason == "" && isWaiting {
				reason = autoscalingv1beta1.ReasonStabilizing
			}
			s.result.add(pod, reason, message)
		}
	}
	s.fail(autoscalingv1beta1.ReasonApplyFailed,
		fmt.Sprintf("%d of %d pods could not be resized", len(errs), s.result.pods), errors.Join(errs...))
}

// resizePod sends one request to resize a pod, and returns the reason and message for the
// result. A refused resize is repeated after a pause, or when it differs.
func (r *resizer) resizePod(
	ctx context.Context, pod *corev1.Pod, containers []corev1.Container, now time.Time,
) (reason, message string, err error) {
	patch, err := resizePatch(pod, containers)
	if err != nil {
		return autoscalingv1beta1.ReasonApplyFailed, "", err
	}
	if previous, isRefused := r.refusalOf(pod.UID); isRefused && previous.patch == patch && now.Before(previous.until) {
		return previous.reason, previous.message, nil
	}
	err = r.SubResource("resize").Patch(ctx, pod.DeepCopy(),
		client.RawPatch(types.StrategicMergePatchType, []byte(patch)), r.fieldOwner)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		log.FromContext(ctx).Info("The API server refused to resize a pod", "Pod", pod.Name, "reason", err.Error())
		r.metrics.resizes.WithLabelValues(resizeRefused).Inc()
		reason, pause := reasonOf(err)
		r.refuse(pod.UID, refusal{patch: patch, reason: reason, message: err.Error(), until: now.Add(pause)})
		return reason, err.Error(), nil
	case err != nil:
		return autoscalingv1beta1.ReasonApplyFailed, "", fmt.Errorf("resize pod %s: %w", pod.Name, err)
	}
	r.metrics.resizes.WithLabelValues(resizeAccepted).Inc()
	log.FromContext(ctx).Info("Resized a pod", "Pod", pod.Name)
	return reasonRequested, "", nil
}

// reasonOf returns the reason of the condition Applied for a refused resize, and how long the
// resize is not repeated.
func reasonOf(refusal error) (reason string, pause time.Duration) {
	switch {
	case apierrors.HasStatusCause(refusal, causeNodeCapacity):
		return autoscalingv1beta1.ReasonResizeInfeasible, infeasiblePause
	case apierrors.HasStatusCause(refusal, causeUnsupportedPlatform):
		return autoscalingv1beta1.ReasonResizeUnsupported, infeasiblePause
	default:
		return autoscalingv1beta1.ReasonResizeRefused, refusalPause
	}
}

// recordResized records one event for all pods that were resized.
func (r *resizer) recordResized(s *scope, size string) {
	if s.result.requested > 0 {
		r.recorder.Eventf(s.scaler, nil, corev1.EventTypeNormal, "Resized", "Resize",
			"Resized %d of %d pods of Deployment %q to %s.", s.result.requested, s.result.pods, s.scaler.Spec.DeploymentName, size)
	}
}

func (r *resizer) refusalOf(pod types.UID) (refusal, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	previous, isRefused := r.refused[pod]
	return previous, isRefused
}

// refuse stores a refusal, and drops those that have expired.
func (r *resizer) refuse(pod types.UID, refused refusal) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, previous := range r.refused {
		if previous.until.Add(infeasiblePause).Before(refused.until) {
			delete(r.refused, uid)
		}
	}
	r.refused[pod] = refused
}

// resizePatch returns the strategic merge patch that sets the resources of containers.
func resizePatch(pod *corev1.Pod, containers []corev1.Container) (string, error) {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var patch struct {
		Spec struct {
			InitContainers []container `json:"initContainers,omitempty"`
			Containers     []container `json:"containers,omitempty"`
		} `json:"spec"`
	}
	for _, changed := range containers {
		item := container{changed.Name, changed.Resources}
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == changed.Name }) {
			patch.Spec.InitContainers = append(patch.Spec.InitContainers, item)
		} else {
			patch.Spec.Containers = append(patch.Spec.Containers, item)
		}
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return "", fmt.Errorf("encode the resize of pod %s: %w", pod.Name, err)
	}
	return string(encoded), nil
}
