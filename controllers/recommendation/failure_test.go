package recommendation_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// errUnavailable is the error of a source, with advice for users.
var errUnavailable = &usage.Error{Advice: "the meter is broken, replace it", Cause: errors.New("no answer")}

func TestFailedReadingsAreReportedUntilAReadingSucceeds(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Fail(errUnavailable)
	m := startManager(t, namespace, &source)
	status := waitForReady(t, scaler, isFalse, "MetricsUnavailable")
	assert.Equal(t, "Cannot read usage: the meter is broken, replace it.", testenv.ConditionMessage(status.Conditions, "Ready"))
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isFalse, "MetricsUnavailable")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		warnings := testenv.Events(c, env, scaler, "MetricsUnavailable")
		if assert.Len(c, warnings, 1) {
			assert.Equal(c, "Warning", warnings[0].Type)
		}
	}, testenv.Timeout, testenv.Poll)
	assert.Positive(t, m.Value(t, "upright_usage_read_failures_total"))

	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 1)
	source.Set(samples...)
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForTargets(t, scaler, recommendedFor(t, samples, "app")...)
}

// unreliableSource is a source that fails every second reading.
type unreliableSource struct{ testenv.Meter }

func (s *unreliableSource) Read(ctx context.Context) ([]usage.Sample, error) {
	samples, err := s.Meter.Read(ctx)
	if s.Reads()%2 == 0 {
		return nil, errUnavailable
	}
	return samples, err
}

func TestSingleFailuresAreNotReported(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source unreliableSource
	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
	var writes testenv.Writes
	m := startManager(t, namespace, &source, writes.Record)
	waitForReady(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return m.Value(t, "upright_usage_read_failures_total") >= 10 }, testenv.Timeout, testenv.Poll)
	assert.Len(t, writes.To("/status"), 1)
	assert.Zero(t, testenv.EventReasons(t, env, scaler)["MetricsUnavailable"])
}

func TestRecommendationStaysWhileUsageCannotBeRead(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	samples := testenv.SteadyUsage(pod, "app", 0.2, 300, 3)
	source.Set(samples...)
	var writes testenv.Writes
	startManager(t, namespace, &source, writes.Record)
	before := waitForReady(t, scaler, isTrue, "Recommended")

	source.Fail(errUnavailable)
	status := waitForReady(t, scaler, isTrue, "MetricsUnavailable")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "MetricsUnavailable")
	assert.Contains(t, testenv.ConditionMessage(status.Conditions, "RecommendationReady"), "the meter is broken, replace it")
	assert.Equal(t, before.Recommendations, status.Recommendations)
	written := len(writes.To("/status"))
	source.WaitUntilLearned(t)
	source.WaitUntilLearned(t)
	assert.Len(t, writes.To("/status"), written, "the failure is reported once")

	source.Fail(errors.New("another problem"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, testenv.ConditionMessage(testenv.Refresh(c, env, scaler).Status.Conditions, "Ready"), "another problem")
	}, testenv.Timeout, testenv.Poll)

	more := testenv.SteadyUsage(pod, "app", 0.9, 900, 1)
	source.Set(more...)
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForTargets(t, scaler, recommendedFor(t, append(samples, more...), "app")...)
}

// hangingSource is a source that does not answer until answers is closed.
type hangingSource struct {
	testenv.Meter
	answers chan struct{}
	reads   atomic.Int32 // Readings that have started.
}

func (s *hangingSource) Read(ctx context.Context) ([]usage.Sample, error) {
	s.reads.Add(1)
	select {
	case <-s.answers:
		return s.Meter.Read(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestReconcilesWaitBrieflyForTheFirstReading(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	source := hangingSource{answers: make(chan struct{})}
	startManager(t, namespace, &source)
	require.Eventually(t, func() bool { return source.reads.Load() > 0 }, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return testenv.Refresh(t, env, scaler.DeepCopy()).Status.ObservedGeneration > 0 }, testenv.Quiet, testenv.Poll)
	waitForReady(t, scaler, isFalse, "NoSamples")
	assert.EqualValues(t, 1, source.reads.Load(), "the first reading goes on")

	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
	close(source.answers)
	waitForReady(t, scaler, isTrue, "Recommended")
}

func TestSlowFirstReadingKeepsPublishedCondition(t *testing.T) {
	t.Parallel()
	for name, published := range map[string]string{"with usage": "Recommended", "without usage": "MetricsUnavailable"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			var source testenv.Meter
			source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
			m := startManager(t, namespace, &source)
			waitForReady(t, scaler, isTrue, "Recommended")
			waitForRecommendedEvent(t, scaler)
			if published == "MetricsUnavailable" {
				source.Fail(errUnavailable)
				waitForReady(t, scaler, isTrue, published)
				require.Eventually(t, func() bool { return len(testenv.Events(t, env, scaler, published)) > 0 }, testenv.Timeout, testenv.Poll)
			}
			m.Stop()
			// The new generation shows when the scaler has been reconciled.
			testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })

			slow := hangingSource{answers: make(chan struct{})}
			var writes testenv.Writes
			startManager(t, namespace, &slow, writes.Record)
			waitForReady(t, scaler, isTrue, published)
			assert.EqualValues(t, 1, slow.reads.Load(), "the first reading still waits")
			if published == "MetricsUnavailable" {
				slow.Fail(errUnavailable)
			} else {
				slow.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
			}
			close(slow.answers)
			slow.WaitUntilLearned(t)
			slow.WaitUntilLearned(t)
			assert.Len(t, writes.To("/status"), 1, "that of the generation")
			assert.Empty(t, writes.To("/events"))
		})
	}
}

func TestMissingMetricsAPIIsReportedWithAdvice(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	httpClient, err := rest.HTTPClientFor(env.Config)
	require.NoError(t, err)
	missing, err := usage.NewMetricsAPI(env.Config, httpClient, namespace)
	require.NoError(t, err)
	source := installedSource{missing: missing}
	startManager(t, namespace, &source)
	status := waitForReady(t, scaler, isFalse, "MetricsUnavailable")
	assert.Equal(t, "Cannot read usage: the cluster has no metrics API (metrics.k8s.io), install metrics-server.",
		testenv.ConditionMessage(status.Conditions, "Ready"))

	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
	waitForReady(t, scaler, isTrue, "Recommended")
}

// installedSource is a meter that reads from a missing source until it has samples.
type installedSource struct {
	testenv.Meter
	missing usage.Source
}

func (s *installedSource) Read(ctx context.Context) ([]usage.Sample, error) {
	if samples, _ := s.Meter.Read(ctx); len(samples) > 0 {
		return samples, nil
	}
	return s.missing.Read(ctx)
}
