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

func TestFailedFirstReadingIsReportedUntilAReadingSucceeds(t *testing.T) {
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
	expired atomic.Int32 // Readings that have reached their deadline.
	// onFirstExpiry is called before the first of them returns, unless it is nil.
	onFirstExpiry func()
}

func (s *hangingSource) Read(ctx context.Context) ([]usage.Sample, error) {
	s.reads.Add(1)
	select {
	case <-s.answers:
		return s.Meter.Read(ctx)
	case <-ctx.Done():
		if s.expired.Add(1) == 1 && s.onFirstExpiry != nil {
			s.onFirstExpiry()
		}
		return nil, ctx.Err()
	}
}

func TestReconcilesWaitBrieflyForTheFirstReadingOnly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var observed atomic.Int64
	waiting := scaler.DeepCopy()
	source := hangingSource{answers: make(chan struct{}), onFirstExpiry: func() {
		observed.Store(testenv.Refresh(t, env, waiting).Status.ObservedGeneration)
	}}
	startManager(t, namespace, &source)
	require.Eventually(t, func() bool { return source.reads.Load() > 0 }, testenv.Timeout, testenv.Poll)
	waitForReady(t, scaler, isFalse, "MetricsUnavailable")
	assert.Zero(t, observed.Load(), "a status was published before the first reading ended")

	// The source still hangs.
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	waitForReady(t, scaler, isFalse, "MetricsUnavailable")
	assert.EqualValues(t, 1, source.expired.Load(), "the reconcile has waited for the second reading")

	source.Set(testenv.SteadyUsage(pod, "app", 0.2, 300, 1)...)
	close(source.answers)
	waitForReady(t, scaler, isTrue, "Recommended")
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
