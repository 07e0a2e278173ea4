package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonOOMKilled is the kubelet's reason for the termination of a container that ran out of memory.
const ReasonOOMKilled = "OOMKilled"

// OOMKill is the termination of a container that ran out of memory.
type OOMKill struct {
	Pod        types.UID
	Container  string
	FinishedAt time.Time
	// Request is the container's memory request, in bytes.
	Request int64
}

// OOMKills returns the last OOM kill of each sized container of a pod.
func OOMKills(pod *corev1.Pod) []OOMKill {
	var found []OOMKill
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		last := LastOOMKill(&status)
		if last == nil {
			continue
		}
		for _, container := range Sizable(&pod.Spec) {
			if container.Name == status.Name {
				found = append(found, OOMKill{
					Pod: pod.UID, Container: container.Name, FinishedAt: last.FinishedAt.Time,
					Request: container.Resources.Requests.Memory().Value(),
				})
			}
		}
	}
	return found
}

// LastOOMKill returns the last termination of a container by an OOM kill, or nil.
func LastOOMKill(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, end := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if end != nil && end.Reason == ReasonOOMKilled {
			return end
		}
	}
	return nil
}
