package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonOOMKilled is the kubelet's reason for the termination of a container that ran out of memory.
const ReasonOOMKilled = "OOMKilled"

// OOMKill is the termination of a container that ran out of memory.
type OOMKill struct {
	Pod       types.UID
	Container string
	// StartedAt and FinishedAt limit the run of the container that the kill ended. Some kubelets
	// do not set them.
	StartedAt, FinishedAt time.Time
}

// OOMKills returns the last OOM kill of each sized container of a pod.
func OOMKills(pod *corev1.Pod) []OOMKill {
	var found []OOMKill
	for _, status := range SizableStatuses(pod) {
		if kill := OOMKillOf(pod, status); kill != nil {
			found = append(found, *kill)
		}
	}
	return found
}

// OOMKillOf returns the last OOM kill of a container of a pod, or nil.
func OOMKillOf(pod *corev1.Pod, status *corev1.ContainerStatus) *OOMKill {
	last := LastOOMKill(status)
	if last == nil {
		return nil
	}
	return &OOMKill{
		Pod: pod.UID, Container: status.Name, StartedAt: last.StartedAt.Time, FinishedAt: last.FinishedAt.Time,
	}
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

// Memory returns the memory at which a container with these resources is killed, in bytes: its
// limit, or its request if it has no limit.
func Memory(resources *corev1.ResourceRequirements) int64 {
	if limit := resources.Limits.Memory().Value(); limit > 0 {
		return limit
	}
	return resources.Requests.Memory().Value()
}
