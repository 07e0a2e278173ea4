package controllers

import (
	"cmp"
	"context"
	"encoding/json"
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
	"example.com/upright/internal/histories"
	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=core,resources=pods/resize,verbs=patch

// The causes that the API server names where it refuses a resize that the node could never do
// (plugin/pkg/admission/podresize in k8s.io/kubernetes).
const (
	causeNodeCapacity        metav1.CauseType = "NodeCapacity"
	causeUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

const (
	// refusalPause is the time after which a resize that the API server refused is tried again.
	refusalPause = 5 * time.Minute
	// infeasiblePause is the time after which a resize that the node cannot do is tried again.
	infeasiblePause = time.Hour
	// killCounts is for how long memory is raised at once after an OOM kill.
	killCounts = time.Hour
	// defaultMaxRestartingPercent is that of the API.
	defaultMaxRestartingPercent = 25
)

// resizer gives running pods the size that their scaler's status says, in place.
type resizer struct {
	client.Client
	fieldOwner client.FieldOwner
	recorder   events.EventRecorder
	metrics    *applyMetrics

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

// resize resizes those pods of a scaler's target that are due, and says how each of them stands.
func (r *resizer) resize(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus,
	record *histories.Record, pods []corev1.Pod, now time.Time,
) (*resizes, error) {
	outcome, err := r.resizeAll(ctx, runningPods(pods), restartsAllowed(scaler, pods), now, func(pod *corev1.Pod) (sizing.Plan, bool) {
		due, waits := duePod(scaler, status, record, pod, pods, now)
		return sizing.PlanResize(pod, due), waits
	})
	r.tell(scaler, outcome, "the size in status.sizing")
	return outcome, err
}

// resizeAll resizes pods by the plan of each, which says besides whether it waits for its time,
// and says how each of them stands. A container of so many pods may be restarted.
func (r *resizer) resizeAll(
	ctx context.Context, pods []*corev1.Pod, restarts int, now time.Time, planOf func(*corev1.Pod) (plan sizing.Plan, waits bool),
) (*resizes, error) {
	outcome := newResizes()
	for _, pod := range pods {
		plan, waits := planOf(pod)
		switch {
		case plan.Blocked != "":
			outcome.add(plan.Blocked, pod, "")
		case len(plan.Containers) > 0 && plan.Restarts && restarts <= 0:
			outcome.add(autoscalingv1beta1.ReasonRestartsLimited, pod, "")
		case len(plan.Containers) > 0:
			if plan.Restarts {
				restarts--
			}
			reason, message, err := r.resizePod(ctx, pod, plan.Containers, now)
			if err != nil {
				return outcome, err
			}
			outcome.add(reason, pod, message)
			if reason == autoscalingv1beta1.ReasonResizing {
				outcome.asked++
			}
		default:
			reason, message := sizing.Resizing(pod)
			if reason == "" && waits {
				reason = autoscalingv1beta1.ReasonStabilizing
			}
			outcome.add(reason, pod, message)
		}
	}
	return outcome, nil
}

// resizePod asks the API server to resize a pod, in one write. What it refuses is tried again
// after a pause, or when something else is asked for.
func (r *resizer) resizePod(
	ctx context.Context, pod *corev1.Pod, containers []corev1.Container, now time.Time,
) (reason, message string, err error) {
	patch, err := resizePatch(pod, containers)
	if err != nil {
		return "", "", err
	}
	if before, isRefused := r.refusalOf(pod.UID); isRefused && before.patch == patch && now.Before(before.until) {
		return before.reason, before.message, nil
	}
	resized := pod.DeepCopy()
	err = r.SubResource("resize").Patch(ctx, resized, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), r.fieldOwner)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		log.FromContext(ctx).Info("The API server refuses to resize a pod", "Pod", pod.Name, "reason", err.Error())
		r.metrics.resizes.WithLabelValues(resizeRefused).Inc()
		reason, pause := reasonOf(err)
		r.refuse(pod.UID, refusal{patch: patch, reason: reason, message: err.Error(), until: now.Add(pause)})
		return reason, err.Error(), nil
	case err != nil:
		return "", "", fmt.Errorf("resize pod %s: %w", pod.Name, err)
	}
	r.metrics.resizes.WithLabelValues(resizeAccepted).Inc()
	log.FromContext(ctx).Info("Resized a pod", "Pod", pod.Name)
	return autoscalingv1beta1.ReasonResizing, "", nil
}

// reasonOf returns the reason of the condition Applied for a resize that the API server refused,
// and for how long the same is not asked for again.
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

// tell records one event for all the pods that were resized.
func (r *resizer) tell(scaler *autoscalingv1beta1.VerticalScaler, outcome *resizes, size string) {
	if outcome.asked > 0 {
		r.recorder.Eventf(scaler, nil, corev1.EventTypeNormal, "Resized", "Resize",
			"Resized %d of %d pods of Deployment %q to %s.", outcome.asked, outcome.pods, scaler.Spec.DeploymentName, size)
	}
}

func (r *resizer) refusalOf(pod types.UID) (refusal, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before, isRefused := r.refused[pod]
	return before, isRefused
}

// refuse takes note of a refusal, and forgets those that are over.
func (r *resizer) refuse(pod types.UID, refused refusal) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, before := range r.refused {
		if before.until.Add(infeasiblePause).Before(refused.until) {
			delete(r.refused, uid)
		}
	}
	r.refused[pod] = refused
}

// resizePatch returns the strategic merge patch that gives containers other resources.
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

// duePod returns the sizes that a pod should get now, and whether others wait for their time.
func duePod(
	scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus,
	record *histories.Record, pod *corev1.Pod, pods []corev1.Pod, now time.Time,
) (due []autoscalingv1beta1.ContainerSizing, waits bool) {
	containers := sizable(pod)
	for i := range containers {
		name := containers[i].Name
		size := slices.IndexFunc(status.Sizing, func(s autoscalingv1beta1.ContainerSizing) bool { return s.ContainerName == name })
		recommended := recommendationOf(status.Recommendations, name)
		if size < 0 || recommended == nil {
			continue
		}
		steady := func(resource corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
			return record.Steady(name, resource, window, now)
		}
		dueNow, waitsToo := sizing.Due(scaler.Spec.Behavior, &containers[i], status.Sizing[size],
			recommended, steady, wasKilled(pods, name, now))
		due = append(due, dueNow)
		waits = waits || waitsToo
	}
	return due, waits
}

// wasKilled reports whether a container of the name ran out of memory in any of the pods, and
// not long ago: a pod goes on showing its last kill.
func wasKilled(pods []corev1.Pod, name string, now time.Time) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return slices.ContainsFunc(kills(&pod), func(kill histories.Kill) bool {
			return kill.Container == name && now.Sub(kill.FinishedAt) < killCounts
		})
	})
}

// runningPods returns the pods that run and are to stay, in the order of their names.
func runningPods(pods []corev1.Pod) []*corev1.Pod {
	var running []*corev1.Pod
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp.IsZero() {
			running = append(running, &pods[i])
		}
	}
	slices.SortFunc(running, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return running
}

// restartsAllowed returns how many more pods may have a container restarted now.
func restartsAllowed(scaler *autoscalingv1beta1.VerticalScaler, pods []corev1.Pod) int {
	percent := defaultMaxRestartingPercent
	if behavior := scaler.Spec.Behavior; behavior != nil && behavior.MaxRestartingPercent > 0 {
		percent = int(behavior.MaxRestartingPercent)
	}
	allowed := max(1, len(pods)*percent/100)
	for i := range pods {
		if resizing, _ := sizing.Resizing(&pods[i]); resizing != "" || !isReady(&pods[i]) {
			allowed--
		}
	}
	return allowed
}

// isReady reports whether a pod is, of which the cache has no condition that says so.
func isReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue
	})
}
