package controllers

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestACheckpointIsWrittenWhenTheManagerStopsAndGoesWithItsScaler(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app", "log")
	samples := append(uses(pod, "app", 0.3, 700, 5), uses(pod, "log", 0.1, 50, 5)...)
	var source meter
	source.show(samples...)
	var wrote writes
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, wrote.record)
	scalerIs(t, scaler, isTrue, "Recommended")
	source.settle(t)
	assert.Empty(t, wrote.to("/verticalscalercheckpoints"), "not before it is due")
	m.stop()
	assert.Len(t, wrote.to("/verticalscalercheckpoints"), 1)

	saved := checkpoint(t, scaler)
	// With this the garbage collector deletes it after its scaler, and never makes that wait.
	assert.Equal(t, []metav1.OwnerReference{{
		APIVersion: "autoscaling.example.com/v1beta1", Kind: "VerticalScaler", Name: "web", UID: scaler.UID, Controller: new(true),
	}}, saved.OwnerReferences)
	assert.Equal(t, "web", saved.Data.DeploymentName)
	for _, container := range []string{"app", "log"} {
		assert.Equal(t, historyOf(t, container, samples...).Checkpoint(), checkpointed(t, scaler, container).Checkpoint(), container)
	}
}

func TestACheckpointIsWrittenWhenItHasChangedAndAtMostOnceAnInterval(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const interval = 300 * time.Millisecond
	start := time.Now()
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.3, 300, 1)...)
	options := newOptions()
	options.Usage.CheckpointInterval = interval
	var wrote writes
	m := startManagerWith(t, namespace, options, usageSource{Source: &source}, wrote.record)
	scalerIs(t, scaler, isTrue, "Recommended")
	written := func() int { return len(wrote.to("/verticalscalercheckpoints")) }
	require.Eventually(t, func() bool {
		source.show(uses(pod, "app", 0.3, 300, 1)...) // Something to learn with each reading.
		return written() >= 3
	}, soon, often)
	assert.LessOrEqual(t, written(), int(time.Since(start)/interval))
	assert.Less(t, int64(written()), savedSamples(t, scaler))

	source.settle(t) // The last sample is learned, and saved after no more than an interval.
	learned := int64(value(t, m, "upright_usage_samples_attributed_total"))
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == learned }, soon, often)
	before := written()
	assert.Never(t, func() bool { return written() > before }, 2*interval, often, "what has not changed")
	assert.InDelta(t, before, value(t, m, "upright_checkpoint_writes_total", "ok"), 0)
	assert.Zero(t, value(t, m, "upright_checkpoint_writes_total", "failed"))
	m.stop()
	assert.Equal(t, before, written(), "neither in the end")
}

func TestACheckpointThatCouldNotBeWrittenIsTriedAgainBeforeAnIntervalIsOver(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const interval = time.Second
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.3, 300, 2)...)
	options := newOptions()
	options.Usage.CheckpointInterval = interval
	var failures atomic.Int64
	failures.Store(3)
	m := startManagerWith(t, namespace, options, usageSource{Source: &source}, failCheckpoints(&failures))
	require.Eventually(t, func() bool { return failures.Load() < 3 }, soon, often)
	failed := time.Now()
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 2 }, soon, often)
	assert.Less(t, time.Since(failed), interval)
	assert.InDelta(t, 3, value(t, m, "upright_checkpoint_writes_total", "failed"), 0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.InDelta(c, 1, value(c, m, "upright_checkpoint_writes_total", "ok"), 0)
	}, soon, often)
}

func TestNothingIsSavedForAScalerThatLearnedNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := measured(t, namespace, "web", "app")
	var wrote writes
	m := startManager(t, namespace, wrote.record)
	scalerIs(t, scaler, isFalse, "NoSamples")
	suspended := newScaler(namespace, "suspended", "paused")
	suspended.Spec.Suspend = true
	scalerIs(t, create(t, suspended), isFalse, "Suspended")
	slow := newScaler(namespace, "slow", "shop")
	slow.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: 48 * time.Hour}}
	scalerIs(t, create(t, slow), isFalse, "DeploymentNotFound")
	m.stop()
	assert.Empty(t, wrote.to("/verticalscalercheckpoints"))
}
