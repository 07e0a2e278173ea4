package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of a setback.
const (
	SetbackOOMKilled = "OOMKilled"
	SetbackRestarted = "Restarted"
	SetbackNotReady  = "NotReady"
)

// notReadyGrace is how long a running pod may be unready before that is a setback. It is the
// default of a Deployment's progressDeadlineSeconds.
const notReadyGrace = 10 * time.Minute

// reasonCrashLoop is the kubelet's reason for a container that waits for its next restart.
const reasonCrashLoop = "CrashLoopBackOff"

// Setback is a sign that a pod does not run well.
type Setback struct {
	Reason string
	// Container is empty if the whole pod is unready.
	Container string
	At        time.Time
}

// SetbackSince returns the most serious setback of a pod since a time, or nil: an OOM kill, a
// restart, or a pod that has been unready for longer than a grace period.
func SetbackSince(pod *corev1.Pod, since, now time.Time) *Setback {
	var found *Setback
	for container, status := range SizableStatuses(pod) {
		end := lastEnd(status)
		switch {
		case end == nil || end.FinishedAt.Time.Before(since) || end.FinishedAt.After(now):
		case end.Reason == ReasonOOMKilled:
			return &Setback{Reason: SetbackOOMKilled, Container: status.Name, At: end.FinishedAt.Time}
		case isCrashLooping(status) || !restartsOnResize(container):
			found = &Setback{Reason: SetbackRestarted, Container: status.Name, At: end.FinishedAt.Time}
		}
	}
	if found == nil {
		found = NotReadySince(pod, since, now)
	}
	return found
}

// NotReadySince returns the setback of a pod that has been unready for longer than a grace period
// since a time, or nil. A new pod is unready before it runs, so it may have been unready before, but
// for less than the grace period.
func NotReadySince(pod *corev1.Pod, since, now time.Time) *Setback {
	unready := UnreadySince(pod)
	if !unready.After(since.Add(-notReadyGrace)) || NotReadyGraceLeft(pod, since, now) > 0 {
		return nil
	}
	return &Setback{Reason: SetbackNotReady, At: unready}
}

// UnreadySince returns the time since when a running pod is unready, or the zero time.
func UnreadySince(pod *corev1.Pod) time.Time {
	if pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
		return time.Time{}
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// NotReadyGraceLeft returns the time until an unready pod counts as a setback since a time; 0 if it
// already does or if the pod is ready.
func NotReadyGraceLeft(pod *corev1.Pod, since, now time.Time) time.Duration {
	unready := UnreadySince(pod)
	if unready.IsZero() {
		return 0
	}
	if unready.Before(since) {
		unready = since
	}
	return max(0, notReadyGrace-now.Sub(unready))
}

// lastEnd returns the last termination of a container, or nil.
func lastEnd(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

func isCrashLooping(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.State.Waiting.Reason == reasonCrashLoop
}

// restartsOnResize reports whether a resize restarts a container. Its restarts are then no sign
// of a problem.
func restartsOnResize(container *corev1.Container) bool {
	return slices.ContainsFunc(container.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		return policy.RestartPolicy == corev1.RestartContainer
	})
}
