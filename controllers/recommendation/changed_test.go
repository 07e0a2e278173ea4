package recommendation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

func TestOnlyScalerWithChangedRecommendationIsReconciled(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	web, podOfWeb := createTarget(t, namespace, "web", "app")
	api, podOfAPI := createTarget(t, namespace, "api", "app")
	var source testenv.Meter
	samples := testenv.SteadyUsage(podOfWeb, "app", 0.2, 300, 1)
	source.Set(append(samples, testenv.SteadyUsage(podOfAPI, "app", 0.2, 300, 1)...)...)
	var reconciles testenv.Reconciles
	startManager(t, namespace, &source, reconciles.Count)
	waitForReady(t, web, isTrue, "Recommended")
	waitForReady(t, api, isTrue, "Recommended")
	// The write of a status triggers a reconcile too.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, reconciles.Of(web), 2)
		assert.GreaterOrEqual(c, reconciles.Of(api), 2)
	}, testenv.Timeout, testenv.Poll)
	source.WaitUntilLearned(t)
	beforeWeb, beforeAPI := reconciles.Of(web), reconciles.Of(api)

	more := append(testenv.SteadyUsage(podOfWeb, "app", 0.8, 900, 1), testenv.SteadyUsage(podOfAPI, "app", 0.2, 300, 1)...)
	source.Set(more...)
	waitForTargets(t, web, recommendedFor(t, append(samples, more[0]), "app")...)
	source.WaitUntilLearned(t)
	assert.Greater(t, reconciles.Of(web), beforeWeb)
	assert.Equal(t, beforeAPI, reconciles.Of(api))
}

func TestSteadyUsageWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 9)...)
	var writes testenv.Writes
	m := startManager(t, namespace, &source, writes.Record)
	waitForReady(t, scaler, isTrue, "Recommended")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, writes.To("/events"), 1) }, testenv.Timeout, testenv.Poll)
	before := writes.All()
	for range 20 {
		source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
		source.WaitUntilLearned(t)
	}
	assert.GreaterOrEqual(t, m.Value(t, "upright_usage_samples_attributed_total"), 29.0, "all samples are learned")
	assert.Equal(t, before, writes.All())
	assert.Len(t, writes.To("/status"), 1)
	assert.Equal(t, int64(9), testenv.Refresh(t, env, scaler).Status.Recommendations[0].Samples, "the number at the last write")
}

func TestBoundThatChangesIsPublishedWithSameTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 9)
	source.Set(samples[:2]...)
	startManager(t, namespace, &source)
	waitForTargets(t, scaler, recommendedFor(t, samples[:2], "app")...)
	first := testenv.Refresh(t, env, scaler).Status.Recommendations[0]

	source.Set(samples[2:]...)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		now := testenv.Refresh(c, env, scaler).Status.Recommendations[0]
		assert.Negative(c, now.UpperBound.Cpu().Cmp(*first.UpperBound.Cpu()), "more samples lower the upper bound")
		testenv.AssertSameJSON(c, first.Target, now.Target)
	}, testenv.Timeout, testenv.Poll)
}

func TestStaleAndUnusableSamplesAreNotLearned(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	stale := testenv.SteadyUsage(pod, "app", 0.2, 300, 1)
	stale[0].Time = stale[0].Time.Add(-20 * time.Minute)
	unusable := testenv.SteadyUsage(pod, "app", -1, 300, 1)
	var source testenv.Meter
	source.Set(append(stale, unusable...)...)
	m := startManager(t, namespace, &source)
	waitForReady(t, scaler, isFalse, "NoSamples")
	source.WaitUntilLearned(t)
	assert.Zero(t, m.Value(t, "upright_usage_samples_attributed_total"))
	assert.Zero(t, m.Value(t, "upright_usage_newest_sample_age_seconds"))
	assert.Positive(t, m.Value(t, "upright_usage_samples_dropped_total", "stale"))
	assert.Positive(t, m.Value(t, "upright_usage_samples_dropped_total", "unusable"))

	samples := []usage.Sample{testenv.SteadyUsage(pod, "app", 0.2, 300, 1)[0]}
	source.Set(samples...)
	waitForTargets(t, scaler, recommendedFor(t, samples, "app")...)
}
