package verticalscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestRunningPodsAreResizedInPlaceWithOneWriteEach(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 3, []corev1.Container{newContainer("web", small, limits), newContainer("log", small, nil)}).start(t)
	for _, pod := range w.pods {
		uid := pod.UID
		w.waitForResources(t, pod, 0, large, huge)
		w.waitForResources(t, pod, 1, large, nil)
		assert.Equal(t, uid, pod.UID)
	}
	assert.Contains(t, w.waitForApplied(t, isFalse, "Resizing"), "3 of 3 pods are being resized")
	for _, pod := range w.pods {
		testenv.RunPod(t, env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
	assert.Equal(t, 3, w.resizes())
	assert.InDelta(t, 3, w.manager.Value(t, "upright_pod_resizes_total", "accepted"), 0)
	assert.InDelta(t, 0, w.manager.Value(t, "upright_pod_resizes_total", "refused"), 0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Positive(c, testenv.EventReasons(c, env, w.scaler)["Resized"])
	}, testenv.Timeout, testenv.Poll)
	assert.Empty(t, w.writes.To("/deployments"))
}

func TestSizedPodsCauseNoWritesEvenAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}).start(t)
	for _, pod := range w.pods {
		w.waitForResources(t, pod, 0, large, nil)
		testenv.RunPod(t, env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Positive(c, testenv.EventReasons(c, env, w.scaler)["Resized"])
	}, testenv.Timeout, testenv.Poll)
	w.waitForTable(t)
	w.assertNoWritesAfter(t, len(w.writes.All()))
	w.manager.Stop() // This writes a checkpoint.
	stopped, version := len(w.writes.All()), testenv.Refresh(t, env, w.scaler).ResourceVersion
	w.start(t)
	w.meter.WaitUntilLearned(t)
	w.assertNoWritesAfter(t, stopped)
	assert.Equal(t, version, testenv.Refresh(t, env, w.scaler).ResourceVersion)
}

// assertNoWritesAfter asserts that the manager writes nothing for a while, after a number of
// earlier writes.
func (w *workload) assertNoWritesAfter(t *testing.T, earlier int) {
	t.Helper()
	assert.Never(t, func() bool { return len(w.writes.All()) > earlier }, testenv.Quiet, testenv.Poll)
	assert.Empty(t, w.writes.All()[earlier:])
}

func TestPodIsResizedWhenItStartsToRun(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	pod := w.pods[0]
	pod.Status.Phase = corev1.PodPending
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	assert.Contains(t, w.start(t).waitForApplied(t, isFalse, "PodsNotRunning"), "1 of 1 pods")
	assert.Zero(t, w.resizes())
	testenv.RunPod(t, env, pod)
	w.waitForResources(t, pod, 0, large, nil)
}

func TestInitialModeAndSuspensionKeepRunningPods(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForApplied(t, isTrue, "SizedAtCreation")
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.UpdateMode = true, autoscalingv1beta1.UpdateModeInPlace
	})
	w.waitForApplied(t, isFalse, "Suspended")
	w.meter.WaitUntilLearned(t)
	assert.Zero(t, w.resizes())
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = false })
	w.waitForResources(t, w.pods[0], 0, large, nil)
}

// useDefaultBehavior makes the scaler of a workload resize running pods after the default
// stabilization window. It removes the policies: with them, the requests would be below the
// lower bound and be raised immediately.
func useDefaultBehavior(w *workload) {
	w.scaler.Spec.Behavior, w.scaler.Spec.ContainerPolicies = nil, nil
}

func TestBehaviorDecidesWhenPodsAreResized(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useDefaultBehavior).start(t)
	w.waitForApplied(t, isFalse, "Stabilizing")
	assert.Zero(t, w.resizes())
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Behavior = &autoscalingv1beta1.Behavior{
			ScaleUp: &autoscalingv1beta1.ScalingRules{SelectPolicy: autoscalingv1beta1.SelectPolicyDisabled},
		}
	})
	w.waitForApplied(t, isTrue, "Sized")
	assert.Zero(t, w.resizes())
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior = immediateBehavior() })
	w.waitForApplied(t, isFalse, "Resizing")
	w.waitForResources(t, w.pods[0], 0, testenv.Refresh(t, env, w.scaler).Status.Sizing[0].Requests, nil)
}

func TestRequestsAreLoweredToTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", huge, nil)}).start(t)
	w.waitForResources(t, w.pods[0], 0, large, nil)
}

func TestOOMKillRaisesMemoryBeforeTheStabilizationWindowEnds(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useDefaultBehavior).start(t)
	w.waitForApplied(t, isFalse, "Stabilizing")
	pod := w.pods[0]
	testenv.OOMKill(t, env, pod, "web", 1)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		requests := testenv.Refresh(c, env, pod).Spec.Containers[0].Resources.Requests
		assert.Positive(c, requests.Memory().Cmp(*small.Memory()))
	}, testenv.Timeout, testenv.Poll)
	testenv.AssertSameJSON(t, small.Cpu(), pod.Spec.Containers[0].Resources.Requests.Cpu())
}

func TestOldOOMKillDoesNotEndTheStabilizationWindow(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useDefaultBehavior).start(t)
	w.waitForApplied(t, isFalse, "Stabilizing")
	testenv.OOMKill(t, env, w.pods[0], "web", -int(2*time.Hour/time.Second))
	w.assertResizes(t, 0)
	w.waitForApplied(t, isFalse, "Stabilizing")
	assert.InDelta(t, 1, w.manager.Value(t, "upright_oom_kills_total"), 0)
}

func TestResizesThatRestartContainersAreLimited(t *testing.T) {
	t.Parallel()
	container := newContainer("web", small, nil)
	container.ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
	}
	w := newWorkload(t, 4, []corev1.Container{container}, func(w *workload) {
		w.scaler.Spec.Behavior.MaxRestartingPercent = 50
	}).start(t)
	for resized := 2; resized <= 4; resized += 2 {
		require.Eventually(t, func() bool { return w.resizes() == resized }, testenv.Timeout, testenv.Poll)
		assert.Never(t, func() bool { return w.resizes() > resized }, testenv.Quiet, testenv.Poll)
		if resized < 4 {
			assert.Contains(t, w.waitForApplied(t, isFalse, "RestartsLimited"), "2 of 4 pods wait")
		}
		for _, pod := range w.pods[resized-2 : resized] {
			w.waitForResources(t, pod, 0, large, nil)
			testenv.RunPod(t, env, pod)
		}
	}
	w.waitForApplied(t, isTrue, "Sized")
}

func TestGuaranteedPodStaysGuaranteed(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, small)}, useInPlaceMode).start(t)
	w.waitForResources(t, w.pods[0], 0, large, large)
	assert.Equal(t, corev1.PodQOSGuaranteed, w.pods[0].Status.QOSClass)
}
