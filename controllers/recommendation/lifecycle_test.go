package recommendation_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
)

func TestYoungerScalerTakesOverWithFullHistory(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	older, pod := createTarget(t, namespace, "web", "app")
	testenv.WaitForNextSecond(t, older)
	younger := testenv.Create(t, env, testenv.NewScaler(namespace, "a-younger", "web"))
	var source testenv.Meter
	samples := testenv.SteadyUsage(pod, "app", 0.3, 700, 5)
	source.Set(samples...)
	startManager(t, namespace, &source)
	waitForReady(t, older, isTrue, "Recommended")
	status := waitForReady(t, younger, isFalse, "Conflicted")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isFalse, "Conflicted")
	assert.Empty(t, status.Recommendations)
	assert.Empty(t, status.PodTarget)

	source.Set() // From now on there are no samples.
	source.WaitUntilLearned(t)
	testenv.Delete(t, env, older)
	status = waitForReady(t, younger, isTrue, "Recommended")
	testenv.AssertSameJSON(t, recommendedFor(t, samples, "app"), status.Recommendations)
}

func TestSuspendedScalerKeepsRecommendationAndLearnsNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	before := testenv.SteadyUsage(pod, "app", 0.3, 300, 1)
	source.Set(before...)
	m := startManager(t, namespace, &source)
	published := waitForReady(t, scaler, isTrue, "Recommended")

	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	status := waitForReady(t, scaler, isFalse, "Suspended")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "Suspended")
	source.Set(testenv.SteadyUsage(pod, "app", 3, 3000, 1)...)
	testenv.OOMKill(t, env, pod, "app", 1)
	source.WaitUntilLearned(t)
	assertRecommendationsStay(t, scaler)
	assert.Equal(t, published.Recommendations, testenv.Refresh(t, env, scaler).Status.Recommendations)
	assert.Equal(t, published.PodTarget, scaler.Status.PodTarget)
	assert.InDelta(t, 1, m.Value(t, "upright_usage_samples_attributed_total"), 0)
	assert.Zero(t, m.Value(t, "upright_oom_kills_total"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, map[string]int{"Recommended": 1, "Suspended": 1}, testenv.EventReasons(c, env, scaler))
	}, testenv.Timeout, testenv.Poll)
	testenv.Delete(t, env, pod)

	next := testenv.Create(t, env, testenv.NewPod(namespace, "web", "bbbbb", "app"))
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	waitForReady(t, scaler, isTrue, "Recommended")
	after := testenv.SteadyUsage(next, "app", 0.1, 600, 1)
	source.Set(after...)
	waitForTargets(t, scaler, recommendedFor(t, slices.Concat(before, after), "app")...)
}

func TestRecommendationSurvivesDeletionOfTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app", "log")
	var source testenv.Meter
	samples := slices.Concat(testenv.SteadyUsage(pod, "app", 0.3, 300, 4), testenv.SteadyUsage(pod, "log", 0.1, 400, 4))
	source.Set(samples...)
	startManager(t, namespace, &source)
	before := waitForReady(t, scaler, isTrue, "Recommended")
	source.Set()

	testenv.Delete(t, env, testenv.NewDeployment(namespace, "web"))
	testenv.Delete(t, env, pod)
	deleted := waitForReady(t, scaler, isFalse, "DeploymentNotFound")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, env, scaler).Status.Conditions, "RecommendationReady", isTrue, "NoPods")
	}, testenv.Timeout, testenv.Poll)
	assert.Equal(t, before.Recommendations, deleted.Recommendations)

	deployment := testenv.NewDeployment(namespace, "web")
	deployment.Spec.Template.Spec = testenv.NewPod(namespace, "web", "", "app", "log").Spec
	testenv.Create(t, env, deployment)
	pod = testenv.Create(t, env, testenv.NewPod(namespace, "web", "bbbbb", "app", "log"))
	recreated := waitForReady(t, scaler, isTrue, "Recommended")
	assert.Equal(t, before.Recommendations, recreated.Recommendations)
	assertRecommendationsStay(t, scaler)

	added := slices.Concat(testenv.SteadyUsage(pod, "app", 2, 800, 1), testenv.SteadyUsage(pod, "log", 0.02, 50, 1))
	source.Set(added...)
	source.WaitUntilLearned(t)
	// Another margin publishes the whole history. A small change of it is not published.
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{MarginPercent: new(int32(115))}
	})
	policy := recommender.DefaultPolicy(2)
	policy.Margin = 1.15
	var want []autoscalingv1beta1.ContainerRecommendation
	for _, container := range []string{"app", "log"} {
		history := historyOf(t, container, slices.Concat(samples, added)...)
		want = append(want, recommendedWith(container, history, policy))
		assert.Equal(t, int64(5), want[len(want)-1].Samples)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertSameJSON(c, want, testenv.Refresh(c, env, scaler).Status.Recommendations)
	}, testenv.Timeout, testenv.Poll)
}

func TestNewTargetStartsWithEmptyHistory(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	testenv.Create(t, env, testenv.NewDeployment(namespace, "api"))
	podOfAPI := testenv.Create(t, env, testenv.NewPod(namespace, "api", "aaaaa", "app"))
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.8, 800, 4)...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")

	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "api" })
	status := waitForReady(t, scaler, isFalse, "NoSamples")
	assert.Empty(t, status.Recommendations, "the history of one Deployment does not apply to another")
	assert.Empty(t, status.PodTarget)
	samples := testenv.SteadyUsage(podOfAPI, "app", 0.2, 300, 1)
	source.Set(samples...)
	waitForTargets(t, scaler, recommendedFor(t, samples, "app")...)

	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "missing" })
	status = waitForReady(t, scaler, isFalse, "DeploymentNotFound")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isFalse, "NoPods")
	assert.Empty(t, status.Recommendations)
}
