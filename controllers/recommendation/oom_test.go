package controllers

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestAnOOMKillRaisesTheMemoryRecommendationWithoutAReading(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.2, 300, 3)
	var source meter
	source.show(samples...)
	options := newOptions()
	options.Usage.Interval = time.Hour // After the first reading there is no other.
	startManagerWith(t, namespace, options, usageSource{Source: &source})
	before := scalerIs(t, scaler, isTrue, "Recommended")

	killed(t, pod, "app", 1)
	start := time.Now()
	history := historyOf(t, "app", samples...)
	addKill(t, history, 1)
	recommends(t, scaler, figures("app", history, 1))
	t.Logf("told after %v", time.Since(start))
	assert.Less(t, time.Since(start), 2*time.Second)
	assert.Positive(t, scaler.Status.PodTarget.Memory().Cmp(*before.PodTarget.Memory()))
	assert.Zero(t, scaler.Status.PodTarget.Cpu().Cmp(*before.PodTarget.Cpu()))
	assert.Equal(t, 1, source.count())
}

func TestAnOOMKillBeforeTheFirstSampleMakesARecommendationOfMemoryAlone(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isFalse, "NoSamples")
	killed(t, pod, "app", 1)
	scalerIs(t, scaler, isTrue, "Recommended")
	history := historyOf(t, "app")
	addKill(t, history, 1)
	recommends(t, scaler, figures("app", history, 1))
	assert.NotContains(t, scaler.Status.PodTarget, corev1.ResourceCPU)

	sample := uses(pod, "app", 0.2, 100, 1)
	source.show(sample...)
	require.NoError(t, history.AddCPU(sample[0].Time, sample[0].CPU))
	require.NoError(t, history.AddMemory(sample[0].Time, sample[0].Memory))
	recommends(t, scaler, figures("app", history, 1))
}

// killedThenGrown returns a scaler whose container was killed once and then used more than it
// did before, with what there is to know of it. A kill that counted again would count from
// that higher use.
func killedThenGrown(t *testing.T, namespace string, source *meter, start func() *manager) (
	m *manager, scaler *autoscalingv1beta1.VerticalScaler, pod *corev1.Pod, want autoscalingv1beta1.ContainerRecommendation,
) {
	t.Helper()
	scaler, pod = measured(t, namespace, "web", "app")
	before := uses(pod, "app", 0.2, 200, 2)
	source.show(before...)
	m = start()
	scalerIs(t, scaler, isTrue, "Recommended")
	killed(t, pod, "app", 1)
	history := historyOf(t, "app", before...)
	addKill(t, history, 1)
	recommends(t, scaler, figures("app", history, 1))
	after := uses(pod, "app", 0.2, 600, 1)
	source.show(after...)
	require.NoError(t, history.AddCPU(after[0].Time, after[0].CPU))
	require.NoError(t, history.AddMemory(after[0].Time, after[0].Memory))
	want = figures("app", history, 1)
	recommends(t, scaler, want)
	return m, scaler, pod, want
}

func TestAnOOMKillCountsOnceHoweverOftenThePodIsSeen(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source meter
	var passes passCounter
	line := newConnection()
	m, scaler, pod, want := killedThenGrown(t, namespace, &source, func() *manager {
		return startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, passes.use, line.use)
	})
	source.settle(t)
	before := passes.over(scaler)

	edit(t, pod, func(pod *corev1.Pod) { pod.Labels["seen"] = "again" })
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	line.cut()
	require.Eventually(t, func() bool { return line.refusals() > 0 }, soon, often)
	line.restore()
	// The status of another container makes a pass over the same pod's kill.
	other := corev1.ContainerStatus{Name: "other", LastTerminationState: pod.Status.ContainerStatuses[0].LastTerminationState}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, other)
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	require.Eventually(t, func() bool { return passes.over(scaler) >= before+2 }, soon, often)
	source.settle(t)
	assert.InDelta(t, 1, value(t, m, "upright_oom_kills_total"), 0)
	recommends(t, scaler, want)
	keepsRecommending(t, scaler)
}

func TestAnOOMKillThatIsSavedCountsNotAgainAfterARestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source meter
	m, scaler, _, want := killedThenGrown(t, namespace, &source, func() *manager {
		return startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	})
	m.stop()
	require.Len(t, checkpoint(t, scaler).Data.OOMKills, 1)

	source.show()
	var passes passCounter
	m = startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, passes.use)
	require.Eventually(t, func() bool { return passes.over(scaler) > 0 }, soon, often)
	source.settle(t)
	assert.Zero(t, value(t, m, "upright_oom_kills_total"))
	recommends(t, scaler, want)
	keepsRecommending(t, scaler)
}

func TestAnOOMKillThatWasNotSavedCountsOnceAfterARestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source meter
	line := newConnection()
	m, scaler, pod, _ := killedThenGrown(t, namespace, &source, func() *manager {
		return startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, line.use)
	})
	line.cut()
	m.stop()

	source.show()
	m = startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	history := historyOf(t, "app")
	addKill(t, history, 1)
	recommends(t, scaler, figures("app", history, 1))
	sample := uses(pod, "app", 0.2, 600, 1)
	source.show(sample...)
	require.NoError(t, history.AddCPU(sample[0].Time, sample[0].CPU))
	require.NoError(t, history.AddMemory(sample[0].Time, sample[0].Memory))
	recommends(t, scaler, figures("app", history, 1))
	assert.InDelta(t, 1, value(t, m, "upright_oom_kills_total"), 0)
}

func TestEachOOMKillCounts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := measured(t, namespace, "web", "app", "log")
	second := create(t, newPod(namespace, "web", "bbbbb", "app", "log"))
	samples := slices.Concat(uses(first, "app", 0.2, 700, 2), uses(first, "log", 0.1, 900, 2))
	var source meter
	source.show(samples...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	app, log := historyOf(t, "app", samples...), historyOf(t, "log", samples...)
	counted := func(kills float64) {
		t.Helper()
		recommends(t, scaler, figures("app", app, 2), figures("log", log, 2))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.InDelta(c, kills, value(c, m, "upright_oom_kills_total"), 0)
		}, soon, often)
	}
	killed(t, first, "app", 1)
	addKill(t, app, 1)
	counted(1)
	killed(t, first, "log", 1)
	addKill(t, log, 1)
	counted(2)
	killed(t, second, "app", 1)
	counted(3)

	grown := uses(first, "app", 0.2, 2000, 1)
	source.show(grown...)
	require.NoError(t, app.AddCPU(grown[0].Time, grown[0].CPU))
	require.NoError(t, app.AddMemory(grown[0].Time, grown[0].Memory))
	counted(3)
	killed(t, first, "app", 2)
	addKill(t, app, 2)
	counted(4)
}

func TestAKillForAnotherReasonRaisesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.2, 300, 1)...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", RestartCount: 1,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}},
	}}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	keepsRecommending(t, scaler)
	assert.Zero(t, value(t, m, "upright_oom_kills_total"))
}

func TestAnOOMKillWhileAScalerIsSuspendedCountsForNothingThenOrLater(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.2, 300, 3)
	var source meter
	source.show(samples...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	before := scalerIs(t, scaler, isTrue, "Recommended")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	scalerIs(t, scaler, isFalse, "Suspended")

	killed(t, pod, "app", 1)
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	assert.Equal(t, before.Recommendations, scalerIs(t, scaler, isTrue, "Recommended").Recommendations)
	assert.Zero(t, value(t, m, "upright_oom_kills_total"))

	killed(t, pod, "app", 2)
	history := historyOf(t, "app", samples...)
	addKill(t, history, 2)
	recommends(t, scaler, figures("app", history, 1))
}
