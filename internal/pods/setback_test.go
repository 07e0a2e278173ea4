package pods_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/pods"
)

func TestSetbackIsTheMostSeriousOneSinceATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	since := now.Add(-time.Hour)
	ended := func(reason string, ago time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "web", LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: reason, FinishedAt: metav1.NewTime(now.Add(-ago))},
		}}
	}
	crashLooping := func(status corev1.ContainerStatus) corev1.ContainerStatus {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		return status
	}
	unready := func(ago time.Duration) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
	restartsOnResize := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for name, test := range map[string]struct {
		statuses   []corev1.ContainerStatus
		conditions []corev1.PodCondition
		policy     []corev1.ContainerResizePolicy
		want       string
	}{
		"a pod without any":                {},
		"an OOM kill":                      {statuses: []corev1.ContainerStatus{ended("OOMKilled", time.Minute)}, want: pods.SetbackOOMKilled},
		"an OOM kill from before":          {statuses: []corev1.ContainerStatus{ended("OOMKilled", 2*time.Hour)}},
		"an OOM kill in the future":        {statuses: []corev1.ContainerStatus{ended("OOMKilled", -time.Hour)}},
		"a restart":                        {statuses: []corev1.ContainerStatus{ended("Error", time.Minute)}, want: pods.SetbackRestarted},
		"a restart by a resize":            {statuses: []corev1.ContainerStatus{ended("Error", time.Minute)}, policy: restartsOnResize},
		"a crash loop after a resize":      {statuses: []corev1.ContainerStatus{crashLooping(ended("Error", time.Minute))}, policy: restartsOnResize, want: pods.SetbackRestarted},
		"an OOM kill and an unready":       {statuses: []corev1.ContainerStatus{ended("OOMKilled", time.Minute)}, conditions: unready(20 * time.Minute), want: pods.SetbackOOMKilled},
		"unready for long":                 {conditions: unready(20 * time.Minute), want: pods.SetbackNotReady},
		"unready within the grace":         {conditions: unready(time.Minute)},
		"unready since before":             {conditions: unready(3 * time.Hour)},
		"unready since its creation":       {conditions: unready(time.Hour + time.Minute), want: pods.SetbackNotReady},
		"an OOM kill of an init container": {statuses: []corev1.ContainerStatus{{Name: "init", LastTerminationState: ended("OOMKilled", time.Minute).LastTerminationState}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init"}},
					Containers:     []corev1.Container{{Name: "web", ResizePolicy: test.policy}},
				},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: test.statuses, Conditions: test.conditions},
			}
			got := ""
			if setback := pods.SetbackSince(pod, since, now); setback != nil {
				got = setback.Reason
			}
			assert.Equal(t, test.want, got)
		})
	}
}
