package recommendation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

func TestRecommendationIsBasedOnUsageOfAllPods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app", "log")
	other := testenv.Create(t, env, testenv.NewPod(namespace, "web", "bbbbb", "app", "log"))
	samples := slices.Concat(
		testenv.SteadyUsage(pod, "app", 0.3, 700, 9), testenv.SteadyUsage(pod, "log", 0.02, 20, 9),
		testenv.SteadyUsage(other, "app", 0.5, 900, 9), testenv.SteadyUsage(other, "log", 0.03, 30, 9),
	)
	var source testenv.Meter
	source.Set(samples...)
	startManager(t, namespace, &source)

	status := waitForReady(t, scaler, isTrue, "Recommended")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "Recommended")
	want := recommendedFor(t, samples, "app", "log")
	testenv.AssertSameJSON(t, want, status.Recommendations)
	assert.Equal(t, int64(18), status.Recommendations[0].Samples)
	assert.Equal(t, 8*time.Minute, status.Recommendations[0].Span.Round(time.Minute))
	assert.Greater(t, want[0].Target.Memory().Value(), int64(900*mebi), "the highest peak and a margin")
	sum := want[0].Target.Memory().DeepCopy()
	sum.Add(*want[1].Target.Memory())
	assert.Zero(t, sum.Cmp(*status.PodTarget.Memory()), "want %s, got %s", &sum, status.PodTarget.Memory())
}

func TestSampleCountsOnceIfReadRepeatedly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 700, 5)...)
	m := startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	source.WaitUntilLearned(t)
	source.WaitUntilLearned(t)
	assert.InDelta(t, 5, m.Value(t, "upright_usage_samples_attributed_total"), 0)
	assert.GreaterOrEqual(t, m.Value(t, "upright_usage_samples_dropped_total", "seen"), 10.0)
	m.Stop()
	assert.Equal(t, int64(5), checkpointed(t, scaler, "app").Recommend(recommender.DefaultPolicy(1)).Samples)
}

func TestUsageOfOtherPodsIsNotAttributed(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	api, pod := createTarget(t, namespace, "web-api", "app")
	withoutOwner := testenv.NewPod(namespace, "web", "orphn", "app")
	withoutOwner.OwnerReferences = nil
	withoutLabels := testenv.NewPod(namespace, "web", "nolbl", "app")
	withoutLabels.Labels = nil
	withOtherHash := testenv.NewPod(namespace, "web", "other", "app")
	withOtherHash.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "6d"
	ofStatefulSet := testenv.NewPod(namespace, "web", "state", "app")
	ofStatefulSet.OwnerReferences[0].Kind = "StatefulSet"
	withoutController := testenv.NewPod(namespace, "web", "owned", "app")
	withoutController.OwnerReferences[0].Controller = nil
	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 1)
	for _, other := range []*corev1.Pod{
		withoutOwner, withoutLabels, withOtherHash, ofStatefulSet, withoutController,
		testenv.NewPod(elsewhere, "web", "aaaaa", "app"), // The name of the scaler's pod.
	} {
		samples = append(samples, testenv.SteadyUsage(testenv.Create(t, env, other), "app", 0.7, 900, 1)...)
	}
	samples = append(samples, testenv.SteadyUsage(testenv.NewPod(namespace, "web", "aaaaa"), "unknown", 0.7, 900, 1)...)
	var source testenv.Meter
	source.Set(samples...)
	m := startManager(t, namespace, &source)

	waitForTargets(t, api, recommendedFor(t, samples[:1], "app")...)
	status := waitForReady(t, scaler, isFalse, "NoSamples")
	assert.Equal(t, `No usage samples for container "app" yet; they usually arrive within two minutes of its start.`,
		testenv.ConditionMessage(status.Conditions, "Ready"))
	assert.Empty(t, status.Recommendations)
	assert.InDelta(t, 1, m.Value(t, "upright_usage_samples_attributed_total"), 0)
	assert.InDelta(t, 7, m.Value(t, "upright_usage_samples_dropped_total", "unattributed"), 0)
}

func TestSidecarIsSizedAndInitContainerIsNot(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))
	pod := testenv.NewPod(namespace, "web", "aaaaa", "app")
	sidecar := testenv.NewContainer("proxy")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{testenv.NewContainer("migrate"), sidecar}
	testenv.Create(t, env, pod)
	samples := slices.Concat(testenv.SteadyUsage(pod, "migrate", 1, 4000, 3),
		testenv.SteadyUsage(pod, "proxy", 0.1, 150, 3), testenv.SteadyUsage(pod, "app", 0.2, 300, 3))
	var source testenv.Meter
	source.Set(samples...)
	m := startManager(t, namespace, &source)
	status := waitForReady(t, scaler, isTrue, "Recommended")
	testenv.AssertSameJSON(t, recommendedFor(t, samples, "proxy", "app"), status.Recommendations)
	assert.InDelta(t, 3, m.Value(t, "upright_usage_samples_dropped_total", "unattributed"), 0)
}

// createNewerPod creates a pod that is newer than another pod of its Deployment.
func createNewerPod(t *testing.T, previous *corev1.Pod, suffix string, containers ...string) *corev1.Pod {
	t.Helper()
	testenv.WaitForNextSecond(t, previous)
	return testenv.Create(t, env, testenv.NewPod(previous.Namespace, previous.Labels["app"], suffix, containers...))
}

func TestNewestPodDecidesWhichContainersAreSized(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := createTarget(t, namespace, "web", "app", "old")
	var samples []usage.Sample
	var source testenv.Meter
	measure := func(more ...usage.Sample) {
		samples = append(samples, more...)
		source.Set(more...)
	}
	measure(slices.Concat(testenv.SteadyUsage(first, "app", 0.2, 300, 1), testenv.SteadyUsage(first, "old", 0.6, 600, 1))...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForTargets(t, scaler, recommendedFor(t, samples, "app", "old")...)

	second := createNewerPod(t, first, "bbbbb", "app", "new")
	status := waitForReady(t, scaler, isFalse, "NoSamples")
	message := testenv.ConditionMessage(status.Conditions, "RecommendationReady")
	assert.Contains(t, message, `"new"`)
	assert.NotContains(t, message, `"app"`)
	waitForTargets(t, scaler, recommended("app", historyOf(t, "app", samples...), 2))

	measure(testenv.SteadyUsage(second, "new", 0.4, 500, 1)...)
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForTargets(t, scaler, recommendedFor(t, samples, "app", "new")...)

	createNewerPod(t, second, "ccccc", "old", "app")
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForTargets(t, scaler, recommendedFor(t, samples, "old", "app")...)
}

func TestEndedOrDeletedPodDoesNotDecideWhichContainersAreSized(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := createTarget(t, namespace, "web", "app")
	setContainers(t, testenv.NewDeployment(namespace, "web"), "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(first, "app", 0.2, 300, 1)...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")

	evicted := createNewerPod(t, first, "bbbbb", "app", "new")
	waitForReady(t, scaler, isFalse, "NoSamples")
	evicted.Status.Phase = corev1.PodFailed
	require.NoError(t, env.Client.Status().Update(t.Context(), evicted))
	waitForReady(t, scaler, isTrue, "Recommended")

	deleted := createNewerPod(t, evicted, "ccccc", "app", "new")
	waitForReady(t, scaler, isFalse, "NoSamples")
	testenv.AddFinalizer(t, env, deleted)
	testenv.Delete(t, env, deleted)
	waitForReady(t, scaler, isTrue, "Recommended")
	testenv.Delete(t, env, first)
	status := waitForReady(t, scaler, isTrue, "NoPods")
	require.Len(t, status.Recommendations, 1)
	assert.Equal(t, "app", status.Recommendations[0].ContainerName)
}

func TestPodMinimumCapsUntilSpecChangesIt(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.004, 10, 1)
	var source testenv.Meter
	source.Set(samples...)
	startManager(t, namespace, &source)
	waitForTargets(t, scaler, recommendedFor(t, samples, "app")...)
	testenv.AssertSameJSON(t, testenv.Amounts("25m", "250Mi"), scaler.Status.PodTarget)
	assert.Equal(t, autoscalingv1beta1.CapPodMinimum, scaler.Status.Recommendations[0].CappedBy[corev1.ResourceCPU])

	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{PodMinimum: allowed("0", "0")}
	})
	policy := recommender.DefaultPolicy(1)
	policy.CPU.PodMinimum, policy.Memory.PodMinimum = 0, 0
	waitForTargets(t, scaler, recommendedWith("app", historyOf(t, "app", samples...), policy))
	assert.Empty(t, scaler.Status.Recommendations[0].CappedBy)
}
