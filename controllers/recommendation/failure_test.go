package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/usage"
)

// errNoUsage is what a source fails with, with an advice for users.
var errNoUsage = &usage.Error{Advice: "the meter is broken, mend it", Unavailable: true, Cause: errors.New("no answer")}

func TestAFirstReadingThatFailsIsToldAndForgottenWhenTheNextSucceeds(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.fail(errNoUsage)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	status := scalerIs(t, scaler, isFalse, "MetricsUnavailable")
	assert.Equal(t, "Usage cannot be read: the meter is broken, mend it.", condition(status, "Ready").Message)
	assertCondition(t, status.Conditions, "RecommendationReady", isFalse, "MetricsUnavailable")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		warnings := eventsOf(c, scaler, "MetricsUnavailable")
		if assert.Len(c, warnings, 1) {
			assert.Equal(c, "Warning", warnings[0].Type)
		}
	}, soon, often)
	assert.Positive(t, value(t, m, "upright_usage_read_failures_total"))

	samples := uses(pod, "app", 0.2, 300, 1)
	source.show(samples...)
	scalerIs(t, scaler, isTrue, "Recommended")
	recommends(t, scaler, figuresOf(t, samples, "app")...)
}

// unsteady is a source of which single readings fail.
type unsteady struct {
	meter
	fails func(reading int) bool
}

func (u *unsteady) Read(ctx context.Context) ([]usage.Sample, error) {
	samples, _ := u.meter.Read(ctx)
	if u.fails(u.count()) {
		return nil, errNoUsage
	}
	return samples, nil
}

func TestSingleFailuresAreNotTold(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	source := unsteady{fails: func(reading int) bool { return reading%2 == 0 }}
	source.show(uses(pod, "app", 0.2, 300, 1)...)
	var wrote writes
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, wrote.record)
	scalerIs(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return value(t, m, "upright_usage_read_failures_total") >= 10 }, soon, often)
	assert.Len(t, wrote.to("/status"), 1)
	assert.Zero(t, told(t, scaler)["MetricsUnavailable"])
}

func TestARecommendationStaysWhileUsageCannotBeRead(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	samples := uses(pod, "app", 0.2, 300, 3)
	source.show(samples...)
	var wrote writes
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, wrote.record)
	before := scalerIs(t, scaler, isTrue, "Recommended")

	source.fail(errNoUsage)
	status := scalerIs(t, scaler, isTrue, "MetricsUnavailable")
	assertCondition(t, status.Conditions, "RecommendationReady", isTrue, "MetricsUnavailable")
	assert.Contains(t, condition(status, "RecommendationReady").Message, "the meter is broken, mend it")
	assert.Equal(t, before.Recommendations, status.Recommendations)
	wroteBefore := len(wrote.to("/status"))
	source.settle(t)
	source.settle(t)
	assert.Len(t, wrote.to("/status"), wroteBefore, "told once")

	source.fail(errors.New("another trouble"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, condition(refresh(c, scaler).Status, "Ready").Message, "another trouble")
	}, soon, often)

	more := uses(pod, "app", 0.9, 900, 1)
	source.show(more...)
	scalerIs(t, scaler, isTrue, "Recommended")
	recommends(t, scaler, figuresOf(t, append(samples, more...), "app")...)
}

// hanging is a source that does not answer at first.
type hanging struct {
	meter
	answers chan struct{}
}

func (h *hanging) Read(ctx context.Context) ([]usage.Sample, error) {
	select {
	case <-h.answers:
		return h.meter.Read(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestASourceThatHangsHoldsTheFirstPassesUpForAShortTimeOnly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	source := hanging{answers: make(chan struct{})}
	started := time.Now()
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isFalse, "MetricsUnavailable")
	assert.GreaterOrEqual(t, time.Since(started), firstReadTimeout)
	// Later passes do not wait, though the source still hangs.
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	edited := time.Now()
	scalerIs(t, scaler, isFalse, "MetricsUnavailable")
	assert.Less(t, time.Since(edited), firstReadTimeout)

	samples := uses(pod, "app", 0.2, 300, 1)
	source.show(samples...)
	close(source.answers)
	scalerIs(t, scaler, isTrue, "Recommended")
}

func TestAManagerThatStartsWithoutAMetricsAPISaysWhatToInstall(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	httpClient, err := rest.HTTPClientFor(env.Config)
	require.NoError(t, err)
	missing, err := usage.NewMetricsAPI(env.Config, httpClient, namespace)
	require.NoError(t, err)
	source := installed{missing: missing}
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	status := scalerIs(t, scaler, isFalse, "MetricsUnavailable")
	assert.Equal(t, "Usage cannot be read: the cluster has no metrics API (metrics.k8s.io), install metrics-server.",
		condition(status, "Ready").Message)

	source.show(uses(pod, "app", 0.2, 300, 1)...)
	scalerIs(t, scaler, isTrue, "Recommended")
}

// installed is a meter that is another source before it shows anything.
type installed struct {
	meter
	missing usage.Source
}

func (i *installed) Read(ctx context.Context) ([]usage.Sample, error) {
	if samples, _ := i.meter.Read(ctx); len(samples) > 0 {
		return samples, nil
	}
	return i.missing.Read(ctx)
}
