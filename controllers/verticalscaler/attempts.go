package verticalscaler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// refusalPause is how long a resize that the API server refused is not repeated at first.
	refusalPause = 5 * time.Minute
	// infeasiblePause is how long a resize that the node cannot do is not repeated at first.
	infeasiblePause = time.Hour
	// loweringPause is how long memory that is in use is not lowered again at first.
	loweringPause = time.Hour
	// maxPause is the longest pause. Each pause that directly follows another is twice as long.
	maxPause = 24 * time.Hour
	// stalledAfter is how long the kubelet may take for a resize before it counts as stalled.
	stalledAfter = 5 * time.Minute
)

// refusal is a resize that the API server refused.
type refusal struct {
	pause
	patch           string
	reason, message string // Of the condition Applied.
}

// podAttempts are the resizes of a pod that failed, or that its node has not completed.
type podAttempts struct {
	// refused has the last refusal for each set of resources, and with anyResources one that
	// holds for every resize of the pod.
	refused map[resourceSet]refusal
	// lowering is the pause after the node could not lower memory.
	lowering pause
	// resizing is the generation of the pod whose resize is in progress, and since is the time
	// since when it is known to be.
	resizing int64
	since    time.Time
}

// refuse stores a refusal and returns how long the resize is not repeated.
func (a *podAttempts) refuse(resources resourceSet, refused refusal, now time.Time, first time.Duration) time.Duration {
	refused.pause = pause{}.next(now, first, maxPause)
	if previous, isKnown := a.refused[resources]; isKnown && previous.reason == refused.reason {
		refused.pause = previous.next(now, first, maxPause)
	}
	if a.refused == nil {
		a.refused = map[resourceSet]refusal{}
	}
	a.refused[resources] = refused
	return refused.length
}

// refusal returns the refusal that keeps a patch from being sent now, or nil.
func (a *podAttempts) refusal(resources resourceSet, patch string, now time.Time) *refusal {
	if always, isKnown := a.refused[anyResources]; isKnown && always.left(now) > 0 {
		return &always
	}
	if previous, isKnown := a.refused[resources]; isKnown && previous.patch == patch && previous.left(now) > 0 {
		return &previous
	}
	return nil
}

// stalledIn returns how long the resize of a pod may still take before it counts as stalled.
func (a *podAttempts) stalledIn(pod *corev1.Pod, now time.Time) time.Duration {
	if a.since.IsZero() || a.resizing != pod.Generation {
		a.resizing, a.since = pod.Generation, now
	}
	return stalledAfter - now.Sub(a.since)
}

// targetAttempts are the attempts to resize the pods of a scaler's target. A new generation of the
// spec begins without any: the user may have removed the cause.
type targetAttempts struct {
	scaler     types.UID
	generation int64
	byPod      map[types.UID]*podAttempts
	// lowering is a pause for all pods. It begins when a manager starts and the pods' memory was
	// in use: the pauses of the previous manager are not known.
	lowering pause
}

// of returns the attempts of a pod.
func (a *targetAttempts) of(pod types.UID) *podAttempts {
	known := a.byPod[pod]
	if known == nil {
		known = &podAttempts{}
		a.byPod[pod] = known
	}
	return known
}

// loweringLeft returns how long the memory of a pod is not lowered.
func (a *targetAttempts) loweringLeft(pod types.UID, now time.Time) time.Duration {
	left := a.lowering.left(now)
	if known := a.byPod[pod]; known != nil {
		left = max(left, known.lowering.left(now))
	}
	return left
}

// settle drops the attempts of a pod that has its size, unless a pause may still be doubled.
func (a *targetAttempts) settle(pod types.UID, now time.Time) {
	if known := a.byPod[pod]; known != nil && len(known.refused) == 0 && known.lowering.left(now) == 0 {
		delete(a.byPod, pod)
	}
}

// prune drops the attempts of pods that no longer exist.
func (a *targetAttempts) prune(pods []corev1.Pod) {
	if len(a.byPod) == 0 {
		return
	}
	present := make(map[types.UID]*podAttempts, len(a.byPod))
	for i := range pods {
		if known := a.byPod[pods[i].UID]; known != nil {
			present[pods[i].UID] = known
		}
	}
	a.byPod = present
}

// attempts are the attempts of all scalers. They are in memory only: a new leader tries again
// once.
type attempts struct {
	mutex    sync.Mutex
	byScaler map[types.NamespacedName]*targetAttempts
}

func newAttempts() *attempts {
	return &attempts{byScaler: map[types.NamespacedName]*targetAttempts{}}
}

// of returns the attempts of a scaler, which only its reconcile uses.
func (a *attempts) of(s *scope) *targetAttempts {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key := client.ObjectKeyFromObject(s.scaler)
	known := a.byScaler[key]
	if known != nil && known.scaler == s.scaler.UID && known.generation == s.scaler.Generation {
		return known
	}
	fresh := &targetAttempts{scaler: s.scaler.UID, generation: s.scaler.Generation, byPod: map[types.UID]*podAttempts{}}
	if known == nil && s.wasApplied(autoscalingv1beta1.ReasonMemoryInUse) {
		fresh.lowering = fresh.lowering.next(s.now, loweringPause, maxPause)
	}
	a.byScaler[key] = fresh
	return fresh
}

// forget drops a scaler that no longer exists.
func (a *attempts) forget(scaler types.NamespacedName) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.byScaler, scaler)
}
