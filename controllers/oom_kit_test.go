package controllers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/recommender"
)

// killTime is when a test's container was killed for the nth time.
func killTime(n int) time.Time {
	return time.Now().Add(time.Duration(n) * time.Second).Add(-time.Minute)
}

// killed writes the status that the kubelet writes when a container has run out of memory for
// the nth time and was started anew.
func killed(t *testing.T, pod *corev1.Pod, container string, n int) {
	t.Helper()
	refresh(t, pod)
	status := corev1.ContainerStatus{
		Name: container, RestartCount: int32(n),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: reasonOOMKilled, FinishedAt: metav1.NewTime(killTime(n)),
		}},
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == container {
			pod.Status.ContainerStatuses[i] = status
			status.Name = ""
		}
	}
	if status.Name != "" {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	require.NoError(t, env.Client.Status().Update(context.Background(), pod))
}

// addKill adds the nth kill of a container of newPod to a history.
func addKill(t *testing.T, history *recommender.History, n int) {
	t.Helper()
	require.NoError(t, history.AddOOMKill(killTime(n), requestedMemory))
}
