package verticalscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
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
	// Memory is not what nodes lack.
	w.waitForResources(t, unschedulable, 0, testenv.Amounts("100m", "1Gi"), testenv.Amounts("200m", "2Gi"))
	w.waitForSizing(t, newSizing("web", only(corev1.ResourceMemory, large), only(corev1.ResourceMemory, huge)))
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
	for name, test := range map[string]struct {
		node   corev1.ResourceList
		waited time.Duration
		left   time.Duration
	}{
		"the node has room":               {node: huge, waited: time.Minute, left: 2 * time.Minute},
		"it fills the node":               {node: large, left: 3 * time.Minute},
		"the grace period has ended":      {node: huge, waited: 3 * time.Minute},
		"only the template would fit":     {node: testenv.Amounts("100m", "1Gi")},
		"the template would not fit":      {node: testenv.Amounts("50m", "1Gi"), left: 3 * time.Minute},
		"no node is known":                {},
		"the other resource does not fit": {node: testenv.Amounts("500m", "128Mi"), left: 3 * time.Minute},
	} {
		w := newFallbackTest(small)
		w.node = test.node
		w.addUnschedulable(large, lacksCPU, now.Add(-test.waited))
		s := w.scopeAt(now)
		found, left := s.obstacle(nil)
		assert.Equal(t, test.left, left, name)
		assert.Equal(t, test.left == 0, found.reason == "Unschedulable", name)
	}
}

// Unbound volume claims, affinities, host ports and taints have nothing to do with the size.
func TestUnschedulablePodForAnotherReasonKeepsItsSize(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, message := range []string{
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
		"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
		"0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.",
		"0/3 nodes are available: 3 node(s) had untolerated taint(s).",
	} {
		w := newFallbackTest(nil)
		w.addUnschedulable(large, message, now.Add(-time.Hour))
		fallback, sizes := w.at(now)
		assert.Nil(t, fallback, message)
		assert.Equal(t, w.recommended, sizes, message)
		assert.Empty(t, w.scopeAt(now).unschedulableByUs(), message)
	}
}

func TestUnschedulablePodIsLoweredOnlyInWhatNodesLack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w := newFallbackTest(small)
	pod := w.addUnschedulable(large, lacksCPU, now)
	fallback, sizes := w.at(now)
	require.NotNil(t, fallback)
	assert.Equal(t, autoscalingv1beta1.FallbackTemplate, fallback.Size)
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", only(corev1.ResourceMemory, large), nil)}, sizes)
	message := w.scopeAt(now).fallbackMessage()
	assert.Contains(t, message, "new pods get no more CPU than the Deployment's template")

	// The other resource follows if nodes lack it too. The first one stays low.
	pod.Status.Conditions[0].Message = lacksMemory
	same, _ := w.at(now.Add(schedulingGracePeriod - time.Second))
	assert.Equal(t, fallback, same)
	next, sizes := w.at(now.Add(schedulingGracePeriod))
	assert.Equal(t, lacksCPU+" "+lacksMemory, next.Message)
	assert.Empty(t, sizes)
	assert.Contains(t, w.scopeAt(now).fallbackMessage(), "new pods get no more than the Deployment's template")
	last, _ := w.at(now.Add(3 * schedulingGracePeriod))
	assert.Equal(t, next, last, "nothing is left to lower")
}

func TestUnschedulablePodThatPoliciesExcludeCausesNoFallback(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(*fallbackTest){
		"mode Off": func(w *fallbackTest) {
			w.scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", Mode: "Off"}}
		},
		"another controlled resource": func(w *fallbackTest) {
			w.scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
				{ContainerName: "web", ControlledResources: []autoscalingv1beta1.ControlledResource{"memory"}}}
		},
		"a HorizontalPodAutoscaler scales on it": func(w *fallbackTest) {
			w.scaledByHPA = map[corev1.ResourceName]string{corev1.ResourceCPU: "web"}
		},
	} {
		w := newFallbackTest(small)
		w.addUnschedulable(large, lacksCPU, now)
		change(w)
		fallback, _ := w.at(now)
		assert.Nil(t, fallback, name)
	}
}

// Infeasible, a rollout, and then no node has room: the replaced pods ran well, so the pods that
// replace them get what those had, and not the template.
func TestUnschedulablePodFallsBackToTheLastKnownGoodSizeFirst(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	good := testenv.Amounts("300m", "768Mi")
	w := newFallbackTest(small)
	w.setLastKnownGood(good)
	w.node = testenv.Amounts("400m", "4Gi")
	pod := w.addUnschedulable(large, lacksCPU, start)
	fallback, sizes := w.at(start)
	assert.Equal(t, autoscalingv1beta1.FallbackLastKnownGood, fallback.Size)
	lowered := corev1.ResourceList{"cpu": good["cpu"], "memory": large["memory"]}
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", lowered, nil)}, sizes)
	assert.Contains(t, w.scopeAt(start).fallbackMessage(), "new pods get no more CPU than the last known good size")
	plan := w.scopeAt(start).planUnschedulable(pod, sizes)
	require.Len(t, plan.Containers, 1)
	testenv.AssertSameJSON(t, lowered, plan.Containers[0].Resources.Requests)

	// A node could hold the pod, so it waits for the grace period.
	pod.Spec.Containers[0].Resources.Requests = lowered
	same, _ := w.at(start.Add(schedulingGracePeriod - time.Second))
	assert.Equal(t, fallback, same)
	later := start.Add(schedulingGracePeriod)
	next, sizes := w.at(later)
	assert.Equal(t, autoscalingv1beta1.FallbackTemplate, next.Size)
	assert.Equal(t, later, next.Since.UTC())
	assert.Equal(t, time.Hour, next.Until.Sub(next.Since.Time))
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", only(corev1.ResourceMemory, large), nil)}, sizes)
}

func TestFallbackIsToTheTemplateIfNoNodeHoldsTheLastKnownGoodSize(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		good corev1.ResourceList
		node corev1.ResourceList
		want autoscalingv1beta1.FallbackSize
	}{
		"it fits":              {good: testenv.Amounts("300m", "768Mi"), node: testenv.Amounts("300m", "4Gi"), want: "LastKnownGood"},
		"it does not fit":      {good: testenv.Amounts("300m", "768Mi"), node: testenv.Amounts("299m", "4Gi"), want: "Template"},
		"it is not smaller":    {good: testenv.Amounts("500m", "768Mi"), node: testenv.Amounts("499m", "4Gi"), want: "Template"},
		"it is the template's": {good: small, node: testenv.Amounts("499m", "4Gi"), want: "Template"},
		"it is unknown":        {node: testenv.Amounts("499m", "4Gi"), want: "Template"},
	} {
		w := newFallbackTest(small)
		w.node = test.node
		if test.good != nil {
			w.setLastKnownGood(test.good)
		}
		w.addUnschedulable(large, lacksCPU, now)
		fallback, _ := w.at(now)
		require.NotNil(t, fallback, name)
		assert.Equal(t, test.want, fallback.Size, name)
	}
}

func TestReplacedPodGetsTheLastKnownGoodSize(t *testing.T) {
	t.Parallel()
	good := testenv.Amounts("300m", "768Mi")
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
		w.pods[1].Spec.Containers = []corev1.Container{newContainer("web", good, nil)}
	})
	w.setLastKnownGood(t, good)
	setUnschedulable(t, w.pods[0])
	message := w.start(t).waitForApplied(t, isFalse, "Unschedulable")
	assert.Contains(t, message, "new pods get no more CPU than the last known good size")
	w.waitForResources(t, w.pods[0], 0, testenv.Amounts("300m", "1Gi"), nil)
	w.waitForSizing(t, newSizing("web", testenv.Amounts("300m", "1Gi"), nil))
	w.waitForResources(t, w.pods[1], 0, good, nil)
}

func TestUnschedulablePodFollowsASmallerRecommendation(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
		w.scaler.Spec.ContainerPolicies = fixedPolicies(testenv.Amounts("50m", "128Mi"))
	})
	setUnschedulable(t, w.pods[0])
	w.start(t).waitForResources(t, w.pods[0], 0, testenv.Amounts("50m", "1Gi"), nil)
	assert.Nil(t, testenv.Refresh(t, env, w.scaler).Status.Fallback)
	w.waitForEvent(t, "Resized")
	w.assertResizes(t, 1)
}
