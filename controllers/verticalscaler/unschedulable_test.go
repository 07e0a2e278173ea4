package verticalscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/testenv"
)

// setUnschedulable writes the status of a pod that the scheduler has found no node for.
func setUnschedulable(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, nil
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient cpu.",
	}}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

func TestUnschedulablePodIsResizedToItsTemplate(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 3, []corev1.Container{newContainer("web", small, limits)}, func(w *workload) {
		for _, pod := range w.pods[:2] {
			pod.Spec.Containers = []corev1.Container{newContainer("web", large, huge)}
		}
	})
	unschedulable, running := w.pods[0], w.pods[1]
	setUnschedulable(t, unschedulable)
	message := w.start(t).waitForApplied(t, isFalse, "Unschedulable")
	assert.Contains(t, message, "(0/3 nodes are available: 3 Insufficient cpu.)")
	assert.Contains(t, message, "add nodes or lower maxAllowed")
	w.waitForResources(t, unschedulable, 0, small, limits)
	w.waitForSizing(t)
	w.assertResizes(t, 1)
	w.waitForResources(t, running, 0, large, huge)
	w.waitForApplied(t, isFalse, "Unschedulable")
}

func TestUnschedulablePodOfTemplateSizeCausesNoFallback(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"the template's size": func(pod *corev1.Pod) { pod.Spec.Containers = []corev1.Container{newContainer("web", small, nil)} },
		"the size of an older, larger template": func(pod *corev1.Pod) {
			pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d8f7c9b6e"
			pod.OwnerReferences[0].Name = "web-5d8f7c9b6e"
			pod.Name = "a" + pod.Name // The newest pod of a second is the last by name.
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}, useInitialMode, func(w *workload) {
				w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
				change(w.pods[0])
			})
			setUnschedulable(t, w.pods[0])
			w.start(t).waitForApplied(t, isTrue, "SizedAtCreation")
			assert.Nil(t, w.scaler.Status.Fallback)
			w.assertResizes(t, 0)
		})
	}
}

// A cluster autoscaler adds a node only while the pod is unschedulable.
func TestUnschedulablePodWaitsForALargeEnoughNode(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	deployment := testenv.NewDeployment("one", "web")
	deployment.Spec.Template.Spec.Containers = []corev1.Container{newContainer("web", small, nil)}
	for name, test := range map[string]struct {
		largestNode corev1.ResourceList
		waited      time.Duration
		left        time.Duration
	}{
		"the largest node has room":   {largestNode: huge, waited: time.Minute, left: 2 * time.Minute},
		"it fills the largest node":   {largestNode: large, left: 3 * time.Minute},
		"the grace period has ended":  {largestNode: huge, waited: 3 * time.Minute},
		"no node is large enough":     {largestNode: small},
		"the largest node is unknown": {},
	} {
		pod := testenv.NewPod("one", "web", "aaaaa")
		pod.Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "no room", LastTransitionTime: metav1.NewTime(now.Add(-test.waited)),
		}}
		s := newScope(testenv.NewScaler("one", "web", "web"), now)
		s.deployment, s.pods, s.constraints.LargestNode = deployment, []corev1.Pod{*pod}, test.largestNode
		assert.Equal(t, test.left, s.schedulingGrace(), name)
		reason, _ := s.obstacle()
		assert.Equal(t, test.left == 0, reason == "Unschedulable", name)
	}
}
