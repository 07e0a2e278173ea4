package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"example.com/upright/internal/testenv"
)

func TestAppliedIsTrueIfAllPodsHaveTheirSize(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", large, nil)}).start(t)
	w.waitForApplied(t, isTrue, "Sized")
	assert.Zero(t, w.resizes())
}

func TestAppliedReportsWhyPodsCannotBeResized(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason     string
		containers []corev1.Container
		pod        func(*corev1.Pod)
		status     func(*corev1.Pod)
	}{
		"best-effort pods": {reason: "QoSClassFixed", containers: []corev1.Container{newContainer("web", nil, nil)}},
		"nodes that do not support it": {
			reason: "ResizeUnsupported", containers: []corev1.Container{newContainer("web", small, nil)},
			status: func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil },
		},
		"pod-level resources": {
			reason: "PodLevelResources", containers: []corev1.Container{newContainer("web", small, nil)},
			pod: func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{Requests: huge, Limits: huge} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 2, test.containers, useInPlaceMode, func(w *workload) {
				for _, pod := range w.pods {
					if test.pod != nil {
						test.pod(pod)
					}
				}
			})
			if test.status != nil {
				for _, pod := range w.pods {
					test.status(pod)
					require.NoError(t, env.Client.Status().Update(t.Context(), pod))
				}
			}
			w.start(t)
			assert.Contains(t, w.waitForApplied(t, isFalse, test.reason), "2 of 2 pods")
			w.waitForEvent(t, test.reason)
			w.assertResizes(t, 0)
			assert.Equal(t, 1, testenv.EventReasons(t, env, w.scaler)[test.reason])
			assert.InDelta(t, 1, w.manager.Value(t, "upright_refusals_total", test.reason), 0)
		})
	}
}

func TestAppliedReportsTheKubeletsConditions(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode).start(t)
	pod := w.pods[0]
	w.waitForResources(t, pod, 0, large, nil)
	for _, test := range []struct {
		reason    string
		condition corev1.PodCondition
	}{
		{"ResizeDeferred", corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred, Message: "the node is full"}},
		{"ResizeInfeasible", corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, Message: "the node is small"}},
		{"ResizeFailed", corev1.PodCondition{Type: corev1.PodResizeInProgress, Reason: corev1.PodReasonError, Message: "it uses more"}},
		{"Resizing", corev1.PodCondition{Type: corev1.PodResizeInProgress, Message: "the runtime resizes it"}},
	} {
		test.condition.Status = corev1.ConditionTrue
		testenv.RunPod(t, env, pod, test.condition)
		message := w.waitForApplied(t, isFalse, test.reason)
		assert.Contains(t, message, "1 of 1 pods")
		assert.Contains(t, message, test.condition.Message)
	}
	w.assertResizes(t, 1)
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, 1)
}
