package recommendation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

func TestOOMKillRaisesMemoryWithoutAnotherReading(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 3)
	var source testenv.Meter
	source.Set(samples...)
	options := newOptions()
	options.Interval = time.Hour // There is one reading.
	startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source})
	before := waitForReady(t, scaler, isTrue, "Recommended")

	testenv.OOMKill(t, env, pod, "app", 1)
	history := historyOf(t, "app", samples...)
	addOOMKill(t, history, 1)
	waitForTargets(t, scaler, recommended("app", history, 1))
	assert.Positive(t, scaler.Status.PodTarget.Memory().Cmp(*before.PodTarget.Memory()))
	assert.Zero(t, scaler.Status.PodTarget.Cpu().Cmp(*before.PodTarget.Cpu()))
	assert.Equal(t, 1, source.Reads())
}

func TestOOMKillWithoutSamplesYieldsMemoryRecommendation(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isFalse, "NoSamples")
	testenv.OOMKill(t, env, pod, "app", 1)
	waitForReady(t, scaler, isTrue, "Recommended")
	history := historyOf(t, "app")
	addOOMKill(t, history, 1)
	waitForTargets(t, scaler, recommended("app", history, 1))
	assert.NotContains(t, scaler.Status.PodTarget, corev1.ResourceCPU)

	sample := testenv.SteadyUsage(pod, "app", 0.2, 100, 1)
	source.Set(sample...)
	addSample(t, history, sample[0])
	waitForTargets(t, scaler, recommended("app", history, 1))
}

// createKilled starts a manager with a scaler whose container is OOM-killed once and then uses
// more memory than before. A kill that counts twice would raise the recommendation, because it
// would count from the higher usage.
func createKilled(t *testing.T, namespace string, source *testenv.Meter, start func() *testenv.Manager) (
	m *testenv.Manager, scaler *autoscalingv1beta1.VerticalScaler, pod *corev1.Pod, want autoscalingv1beta1.ContainerRecommendation,
) {
	t.Helper()
	scaler, pod = createTarget(t, namespace, "web", "app")
	before := testenv.SteadyUsage(pod, "app", 0.2, 200, 2)
	source.Set(before...)
	m = start()
	waitForReady(t, scaler, isTrue, "Recommended")
	testenv.OOMKill(t, env, pod, "app", 1)
	history := historyOf(t, "app", before...)
	addOOMKill(t, history, 1)
	waitForTargets(t, scaler, recommended("app", history, 1))
	after := testenv.SteadyUsage(pod, "app", 0.2, 600, 1)
	source.Set(after...)
	addSample(t, history, after[0])
	want = recommended("app", history, 1)
	waitForTargets(t, scaler, want)
	return m, scaler, pod, want
}

func TestOOMKillCountsOnceIfObservedRepeatedly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source testenv.Meter
	var reconciles testenv.Reconciles
	connection := testenv.NewConnection()
	m, scaler, pod, want := createKilled(t, namespace, &source, func() *testenv.Manager {
		return startManager(t, namespace, &source, reconciles.Count, connection.Use)
	})
	source.WaitUntilLearned(t)
	before := reconciles.Of(scaler)

	testenv.Edit(t, env, pod, func(pod *corev1.Pod) { pod.Labels["seen"] = "again" })
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	connection.Cut()
	require.Eventually(t, func() bool { return connection.Refused() > 0 }, testenv.Timeout, testenv.Poll)
	connection.Restore()
	// The status of another container triggers a reconcile of the same pod.
	other := corev1.ContainerStatus{Name: "other", LastTerminationState: pod.Status.ContainerStatuses[0].LastTerminationState}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, other)
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	require.Eventually(t, func() bool { return reconciles.Of(scaler) >= before+2 }, testenv.Timeout, testenv.Poll)
	source.WaitUntilLearned(t)
	assert.InDelta(t, 1, m.Value(t, "upright_oom_kills_total"), 0)
	waitForTargets(t, scaler, want)
	assertRecommendationsStay(t, scaler)
}

func TestSavedOOMKillIsNotCountedAgainAfterRestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source testenv.Meter
	m, scaler, _, want := createKilled(t, namespace, &source, func() *testenv.Manager {
		return startManager(t, namespace, &source)
	})
	m.Stop()
	require.Len(t, checkpoint(t, scaler).Data.OOMKills, 1)

	source.Set()
	var reconciles testenv.Reconciles
	m = startManager(t, namespace, &source, reconciles.Count)
	waitForReconcile(t, &reconciles, scaler)
	source.WaitUntilLearned(t)
	assert.Zero(t, m.Value(t, "upright_oom_kills_total"))
	waitForTargets(t, scaler, want)
	assertRecommendationsStay(t, scaler)
}

func TestUnsavedOOMKillCountsOnceAfterRestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var source testenv.Meter
	connection := testenv.NewConnection()
	m, scaler, pod, _ := createKilled(t, namespace, &source, func() *testenv.Manager {
		return startManager(t, namespace, &source, connection.Use)
	})
	connection.Cut()
	m.Stop()

	source.Set()
	m = startManager(t, namespace, &source)
	history := historyOf(t, "app")
	addOOMKill(t, history, 1)
	waitForTargets(t, scaler, recommended("app", history, 1))
	sample := testenv.SteadyUsage(pod, "app", 0.2, 600, 1)
	source.Set(sample...)
	addSample(t, history, sample[0])
	waitForTargets(t, scaler, recommended("app", history, 1))
	assert.InDelta(t, 1, m.Value(t, "upright_oom_kills_total"), 0)
}

func TestEachOOMKillCounts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := createTarget(t, namespace, "web", "app", "log")
	second := testenv.Create(t, env, testenv.NewPod(namespace, "web", "bbbbb", "app", "log"))
	samples := slices.Concat(testenv.SteadyUsage(first, "app", 0.2, 700, 2), testenv.SteadyUsage(first, "log", 0.1, 900, 2))
	var source testenv.Meter
	source.Set(samples...)
	m := startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	app, log := historyOf(t, "app", samples...), historyOf(t, "log", samples...)
	waitForCount := func(kills float64) {
		t.Helper()
		waitForTargets(t, scaler, recommended("app", app, 2), recommended("log", log, 2))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.InDelta(c, kills, m.Value(c, "upright_oom_kills_total"), 0)
		}, testenv.Timeout, testenv.Poll)
	}
	testenv.OOMKill(t, env, first, "app", 1)
	addOOMKill(t, app, 1)
	waitForCount(1)
	testenv.OOMKill(t, env, first, "log", 1)
	addOOMKill(t, log, 1)
	waitForCount(2)
	testenv.OOMKill(t, env, second, "app", 1)
	waitForCount(3)

	more := testenv.SteadyUsage(first, "app", 0.2, 2000, 1)
	source.Set(more...)
	addSample(t, app, more[0])
	waitForCount(3)
	testenv.OOMKill(t, env, first, "app", 2)
	addOOMKill(t, app, 2)
	waitForCount(4)
}

func TestKillForOtherReasonDoesNotCount(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
	m := startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", RestartCount: 1,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}},
	}}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	assertRecommendationsStay(t, scaler)
	assert.Zero(t, m.Value(t, "upright_oom_kills_total"))
}

func TestOOMKillOfSuspendedScalerNeverCounts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 3)
	var source testenv.Meter
	source.Set(samples...)
	m := startManager(t, namespace, &source)
	before := waitForReady(t, scaler, isTrue, "Recommended")
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	waitForReady(t, scaler, isFalse, "Suspended")

	testenv.OOMKill(t, env, pod, "app", 1)
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	assert.Equal(t, before.Recommendations, waitForReady(t, scaler, isTrue, "Recommended").Recommendations)
	assert.Zero(t, m.Value(t, "upright_oom_kills_total"))

	testenv.OOMKill(t, env, pod, "app", 2)
	history := historyOf(t, "app", samples...)
	addOOMKill(t, history, 2)
	waitForTargets(t, scaler, recommended("app", history, 1))
}
