package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestRunningPodsAreResizedInPlaceWithOneWriteEach(t *testing.T) {
	t.Parallel()
	limits := amounts("200m", "512Mi")
	s := newShop(t, 3, []corev1.Container{sells("web", small, limits), sells("log", small, nil)}).open(t)
	for _, pod := range s.pods {
		uid := pod.UID
		has(t, pod, 0, large, huge)
		has(t, pod, 1, large, nil)
		assert.Equal(t, uid, pod.UID)
	}
	assert.Contains(t, s.applied(t, isFalse, "Resizing"), "3 of 3 pods are being resized")
	for _, pod := range s.pods {
		runs(t, pod)
	}
	s.applied(t, isTrue, "Sized")
	assert.Equal(t, 3, s.resizes())
	assert.InDelta(t, 3, value(t, s.manager, "upright_pod_resizes_total", "accepted"), 0)
	assert.InDelta(t, 0, value(t, s.manager, "upright_pod_resizes_total", "refused"), 0)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Positive(c, told(c, s.scaler)["Resized"]) }, soon, often)
	assert.Empty(t, s.wrote.to("/deployments"))

	before := len(s.wrote.all())
	assert.Never(t, func() bool { return len(s.wrote.all()) > before }, aWhile, often)
	s.manager.stop()
	s.wrote = writes{}
	s.open(t)
	settled := refresh(t, s.scaler).ResourceVersion
	s.source.settle(t)
	assert.Never(t, func() bool { return len(s.wrote.all()) > 0 }, aWhile, often)
	assert.Equal(t, settled, refresh(t, s.scaler).ResourceVersion)
}

func TestAPodIsResizedWhenItStartsToRun(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)})
	pod := s.pods[0]
	pod.Status.Phase = corev1.PodPending
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	s.open(t).applied(t, isTrue, "Sized")
	assert.Zero(t, s.resizes())
	runs(t, pod)
	has(t, pod, 0, large, nil)
}

func TestInitialModeAndSuspensionLeaveRunningPodsAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially).open(t)
	s.applied(t, isTrue, "SizedAtCreation")
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.UpdateMode = true, autoscalingv1beta1.UpdateModeInPlace
	})
	s.applied(t, isFalse, "Suspended")
	s.source.settle(t)
	assert.Zero(t, s.resizes())
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = false })
	has(t, s.pods[0], 0, large, nil)
}

func TestPodsFollowWhenTheTargetHasBeenOffForLongEnough(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.scaler.Spec.Behavior, s.scaler.Spec.ContainerPolicies = nil, nil // Below the lower bound it would be at once.
	}).open(t)
	s.applied(t, isFalse, "Stabilizing")
	assert.Zero(t, s.resizes())
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Behavior = &autoscalingv1beta1.Behavior{
			ScaleUp: &autoscalingv1beta1.ScalingRules{SelectPolicy: autoscalingv1beta1.SelectPolicyDisabled},
		}
	})
	s.applied(t, isTrue, "Sized")
	assert.Zero(t, s.resizes())
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior = atOnce() })
	s.applied(t, isFalse, "Resizing")
	has(t, s.pods[0], 0, refresh(t, s.scaler).Status.Sizing[0].Requests, nil)
}

func TestRequestsAreLoweredWhenTheTargetIs(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", huge, nil)}).open(t)
	has(t, s.pods[0], 0, large, nil)
}

// runsAfterKill writes the status of a pod whose container "web" was killed and runs again.
func runsAfterKill(t *testing.T, pod *corev1.Pod, n int) {
	t.Helper()
	killed(t, pod, "web", n)
	pod.Status.ContainerStatuses[0].Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

func TestAnOOMKillRaisesTheMemoryOfRunningPodsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.scaler.Spec.Behavior, s.scaler.Spec.ContainerPolicies = nil, nil
	}).open(t)
	s.applied(t, isFalse, "Stabilizing")
	pod := s.pods[0]
	runsAfterKill(t, pod, 1)
	start := time.Now()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Positive(c, refresh(c, pod).Spec.Containers[0].Resources.Requests.Memory().Cmp(*small.Memory()))
	}, soon, often)
	assert.Less(t, time.Since(start), 2*time.Second)
	assertSame(t, small.Cpu(), pod.Spec.Containers[0].Resources.Requests.Cpu())
}

func TestAnOOMKillOfHoursAgoIsNoReasonToHurry(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.scaler.Spec.Behavior, s.scaler.Spec.ContainerPolicies = nil, nil
	}).open(t)
	s.applied(t, isFalse, "Stabilizing")
	runsAfterKill(t, s.pods[0], -int(2*time.Hour/time.Second))
	s.asksNoMoreThan(t, 0)
	s.applied(t, isFalse, "Stabilizing")
	assert.InDelta(t, 1, value(t, s.manager, "upright_oom_kills_total"), 0)
}

func TestContainersThatARestartResizesAreRestartedFewAtATime(t *testing.T) {
	t.Parallel()
	web := sells("web", small, nil)
	web.ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
	}
	s := newShop(t, 4, []corev1.Container{web}, func(s *shop) { s.scaler.Spec.Behavior.MaxRestartingPercent = 50 }).open(t)
	for resized := 2; resized <= 4; resized += 2 {
		require.Eventually(t, func() bool { return s.resizes() == resized }, soon, often)
		assert.Never(t, func() bool { return s.resizes() > resized }, aWhile, often)
		if resized < 4 {
			assert.Contains(t, s.applied(t, isFalse, "RestartsLimited"), "2 of 4 pods wait")
		}
		for _, pod := range s.pods[resized-2 : resized] {
			has(t, pod, 0, large, nil)
			runs(t, pod)
		}
	}
	s.applied(t, isTrue, "Sized")
}
