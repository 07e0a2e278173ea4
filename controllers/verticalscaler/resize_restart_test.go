package verticalscaler

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// newRestartedContainer returns a small container that restarts when its memory changes.
func newRestartedContainer() corev1.Container {
	container := newContainer("web", small, nil)
	container.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	return container
}

// TestDeferredResizeDoesNotCountAsARestart shows that pods without room on their nodes do not keep
// others from being resized.
func TestDeferredResizeDoesNotCountAsARestart(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 3, []corev1.Container{newRestartedContainer()}).start(t)
	for deferred := range w.pods {
		for _, pod := range w.resizedPods(t, deferred+1) {
			if !isDeferred(pod) {
				deferResize(t, pod)
			}
		}
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		message := testenv.ConditionMessage(testenv.Refresh(c, env, w.scaler).Status.Conditions, "Applied")
		assert.Contains(c, message, "3 of 3 pods wait until their nodes have room")
	}, testenv.Timeout, testenv.Poll)
	w.assertResizes(t, 3)
}

func isDeferred(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
}

// TestUnreadyPodIsResizedBesideTheLeftoverOfAnEvictedOne shows that neither uses up the only
// restart that is allowed.
func TestUnreadyPodIsResizedBesideTheLeftoverOfAnEvictedOne(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newRestartedContainer()})
	setStatus(t, w.pods[0], func(status *corev1.PodStatus) {
		status.Phase, status.Reason, status.Conditions = corev1.PodFailed, "Evicted", nil
	})
	setStatus(t, w.pods[1], func(status *corev1.PodStatus) {
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	})
	w.start(t)
	w.waitForResources(t, w.pods[1], 0, large, nil)
	w.assertResizes(t, 1)
}

func TestRestartBudgetCountsOtherPods(t *testing.T) {
	t.Parallel()
	newPod := func(isReady, isRestarting bool) corev1.Pod {
		container := newRestartedContainer()
		pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: container.Resources.DeepCopy(),
		}}
		if isRestarting {
			pod.Status.ContainerStatuses[0].Resources.Requests = large
		}
		if !isReady {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		}
		return pod
	}
	ready, unready, restarting := newPod(true, false), newPod(false, false), newPod(true, true)
	ended, deleted := newPod(false, false), newPod(false, false)
	ended.Status.Phase, deleted.DeletionTimestamp = corev1.PodFailed, new(metav1.Now())
	for name, test := range map[string]struct {
		pods []corev1.Pod // The first one is to restart. One may at a time.
		want bool
	}{
		"all ready":                       {[]corev1.Pod{ready, ready, ready}, true},
		"another is not ready":            {[]corev1.Pod{ready, unready}, false},
		"another restarts":                {[]corev1.Pod{ready, restarting}, false},
		"leftovers":                       {[]corev1.Pod{ready, ended, deleted}, true},
		"not ready itself":                {[]corev1.Pod{unready, ready}, true},
		"not ready, as others are":        {[]corev1.Pod{unready, unready}, true},
		"not ready, and another restarts": {[]corev1.Pod{unready, restarting}, false},
		"restarts itself":                 {[]corev1.Pod{restarting, ready}, true},
	} {
		s := newScope(testenv.NewScaler("default", "web", "web"), metav1.Now().Time)
		s.pods = test.pods
		budget := s.newRestartBudget()
		assert.Equal(t, test.want, budget.take(&s.pods[0]), name)
		if test.want {
			assert.False(t, budget.take(&ready), "%s: the restart counts", name)
		}
	}
}
