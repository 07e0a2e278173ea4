package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/recommender"
)

// OOMKill is an OOM kill, and the memory that was in force: the container's limit, or its request if
// it had no limit.
type OOMKill struct {
	pods.OOMKill
	Memory int64
}

// kill is the last OOM kill of a container.
type kill struct {
	isKnown bool
	// isCounted is false if only the history of a previous scaler has the kill.
	isCounted bool
	finished  int64 // As the kubelet reports it, see finishedOf.
	memory    int64
}

// finishedOf returns the time of an OOM kill as the kubelet reports it, in seconds since 1970. It is
// 0 if there is none.
func finishedOf(kill *pods.OOMKill) int64 { return max(0, kill.FinishedAt.Unix()) }

// isBefore reports whether an OOM kill is a later one than the last one that is counted. A time in
// the future cannot be true, so any other time is later.
func (k *kill) isBefore(other *pods.OOMKill, now time.Time) bool {
	finished := finishedOf(other)
	return !k.isCounted || finished > k.finished || finished < k.finished && k.finished > now.Unix()
}

// ObservePods notes the memory that the target's containers have, and returns their OOM kills that
// were neither added nor skipped. It drops what is known of all other pods, but not the samples of
// their OOM kills. The template is that of new pods; nil if it is not known.
func (h *WorkloadHistory) ObservePods(targetPods []corev1.Pod, template *corev1.PodSpec, now time.Time) []OOMKill {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.observations++
	var found []OOMKill
	for i := range targetPods {
		pod := &targetPods[i]
		known := h.podMemory(pod.UID)
		known.observed = h.observations
		if known.version == "" || known.version != pod.ResourceVersion {
			found = append(found, h.observe(pod, known, template, now)...)
		}
	}
	maps.DeleteFunc(h.pods, func(_ types.UID, pod *podMemory) bool {
		isGone := pod.observed != h.observations
		h.changed = h.changed || isGone && pod.wasKilled()
		return isGone
	})
	return found
}

// observe notes the memory that a pod's containers have, and returns the new OOM kills. A pod with
// new OOM kills is observed again, also if it does not change.
func (h *WorkloadHistory) observe(pod *corev1.Pod, known *podMemory, template *corev1.PodSpec, now time.Time) (found []OOMKill) {
	known.version = pod.ResourceVersion
	for container, status := range pods.SizableStatuses(pod) {
		memory := known.container(container.Name)
		// The status has the last OOM kill and the run after it, so the kill comes first.
		if kill := pods.OOMKillOf(pod, status); kill != nil && memory.kill.isBefore(kill, now) {
			known.version = ""
			if had, isKnown := memory.at(kill, pod, container, status, template); isKnown {
				found = append(found, OOMKill{OOMKill: *kill, Memory: had})
			}
		}
		if memory.observe(pod, container, status) && memory.kill.isKnown {
			h.changed = true
		}
	}
	return found
}

// AddOOMKill adds an OOM kill, unless it is already counted. It reports whether it added the kill.
// A kill counts now if its time cannot be true.
func (h *WorkloadHistory) AddOOMKill(kill OOMKill, now time.Time) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.countOOMKill(&kill, now) {
		return false
	}
	at := kill.FinishedAt
	if finishedOf(&kill.OOMKill) == 0 || at.After(now) {
		at = now
	}
	return h.addTo(kill.Container, func(history *recommender.History) error {
		return history.AddOOMKill(at, kill.Memory)
	}) == nil
}

// SkipOOMKill marks an OOM kill as counted without adding it.
func (h *WorkloadHistory) SkipOOMKill(kill OOMKill, now time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.countOOMKill(&kill, now)
}

// countOOMKill marks an OOM kill as counted, and reports whether it was not.
func (h *WorkloadHistory) countOOMKill(added *OOMKill, now time.Time) bool {
	last := &h.podMemory(added.Pod).container(added.Container).kill
	if !last.isBefore(&added.OOMKill, now) {
		return false
	}
	*last = kill{isKnown: true, isCounted: true, finished: finishedOf(&added.OOMKill), memory: added.Memory}
	h.changed = true
	return true
}

// oomKills returns the OOM kills that are counted, sorted by pod and container.
func (h *WorkloadHistory) oomKills() []autoscalingv1beta1.OOMKill {
	var all []autoscalingv1beta1.OOMKill
	for uid, pod := range h.pods {
		for i := range pod.containers {
			container := &pod.containers[i]
			if !container.kill.isCounted {
				continue
			}
			all = append(all, autoscalingv1beta1.OOMKill{
				PodUID: uid, ContainerName: container.name,
				FinishedAt: metav1.Unix(container.kill.finished, 0), Memory: container.kill.memory,
				Run: container.run.stored(),
			})
		}
	}
	slices.SortFunc(all, func(a, b autoscalingv1beta1.OOMKill) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.ContainerName, b.ContainerName))
	})
	return all
}

// restoreOOMKill restores an OOM kill that is counted.
func (h *WorkloadHistory) restoreOOMKill(stored *autoscalingv1beta1.OOMKill) {
	container := h.podMemory(stored.PodUID).container(stored.ContainerName)
	container.kill = kill{isKnown: true, isCounted: true, finished: stored.FinishedAt.Unix(), memory: stored.Memory}
	container.run = restoredRun(stored.Run)
}
