package verticalscaler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"example.com/upright/internal/testenv"
)

// deferResize writes the status that the kubelet writes when it defers the resize of a pod.
func deferResize(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "no room",
	})
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// resizedPods waits until a number of pods have had a resize to large, and returns them by name.
func (w *workload) resizedPods(t *testing.T, count int) map[string]*corev1.Pod {
	t.Helper()
	var resized map[string]*corev1.Pod
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		resized = map[string]*corev1.Pod{}
		for _, pod := range w.pods {
			requests := testenv.Refresh(c, env, pod).Spec.Containers[0].Resources.Requests
			if requests.Cpu().Equal(*large.Cpu()) {
				resized[pod.Name] = pod
			}
		}
		assert.Len(c, resized, count)
	}, testenv.Timeout, testenv.Poll)
	return resized
}

func TestDeferredResizeCountsAsARestartUntilItFinishes(t *testing.T) {
	t.Parallel()
	container := newContainer("web", small, nil)
	container.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	w := newWorkload(t, 4, []corev1.Container{container}, func(w *workload) {
		w.scaler.Spec.Behavior.MaxRestartingPercent = 50
	}).start(t)
	isDeferred := func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	}
	finished := map[string]bool{}
	for len(finished) < len(w.pods) {
		requested := min(len(finished)+2, len(w.pods))
		resized := w.resizedPods(t, requested)
		var unfinished []*corev1.Pod
		for name, pod := range resized {
			if finished[name] {
				continue
			}
			unfinished = append(unfinished, pod)
			if !isDeferred(pod) {
				deferResize(t, pod)
			}
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			message := testenv.ConditionMessage(testenv.Refresh(c, env, w.scaler).Status.Conditions, "Applied")
			assert.Contains(c, message, fmt.Sprintf("%d of 4 pods wait until their nodes have room", len(unfinished)))
		}, testenv.Timeout, testenv.Poll)
		w.waitForApplied(t, isFalse, "ResizeDeferred")
		w.assertResizes(t, requested)
		testenv.RunPod(t, env, unfinished[0]) // It restarts, and the other stays deferred.
		finished[unfinished[0].Name] = true
	}
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, len(w.pods))
}
