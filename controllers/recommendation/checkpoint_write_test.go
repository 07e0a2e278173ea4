package recommendation_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

func TestCheckpointIsWrittenWhenManagerStopsAndBelongsToScaler(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app", "log")
	samples := append(testenv.SteadyUsage(pod, "app", 0.3, 700, 5), testenv.SteadyUsage(pod, "log", 0.1, 50, 5)...)
	var source testenv.Meter
	source.Set(samples...)
	var writes testenv.Writes
	m := startManager(t, namespace, &source, writes.Record)
	waitForReady(t, scaler, isTrue, "Recommended")
	source.WaitUntilLearned(t)
	assert.Empty(t, writes.To("/verticalscalercheckpoints"), "no checkpoint is due")
	m.Stop()
	assert.Len(t, writes.To("/verticalscalercheckpoints"), 1)

	saved := checkpoint(t, scaler)
	// The garbage collector deletes the checkpoint after its scaler, and never delays the scaler.
	assert.Equal(t, []metav1.OwnerReference{{
		APIVersion: "autoscaling.example.com/v1beta1", Kind: "VerticalScaler", Name: "web", UID: scaler.UID, Controller: new(true),
	}}, saved.OwnerReferences)
	assert.Equal(t, "web", saved.Data.DeploymentName)
	for _, container := range []string{"app", "log"} {
		assert.Equal(t, historyOf(t, container, samples...).Checkpoint(), checkpointed(t, scaler, container).Checkpoint(), container)
	}
}

func TestCheckpointIsWrittenIfChangedAndAtMostOncePerInterval(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const interval = 300 * time.Millisecond
	start := time.Now()
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
	options := newOptions()
	options.CheckpointInterval = interval
	var writes testenv.Writes
	m := startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source}, writes.Record)
	waitForReady(t, scaler, isTrue, "Recommended")
	written := func() int { return len(writes.To("/verticalscalercheckpoints")) }
	require.Eventually(t, func() bool {
		source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...) // The history changes with each reading.
		return written() >= 3
	}, testenv.Timeout, testenv.Poll)
	assert.LessOrEqual(t, written(), int(time.Since(start)/interval), "no more writes than intervals")
	assert.Less(t, int64(written()), savedSamples(t, scaler), "fewer writes than readings")

	source.WaitUntilLearned(t) // The last sample is saved within an interval.
	learned := int64(m.Value(t, "upright_usage_samples_attributed_total"))
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == learned }, testenv.Timeout, testenv.Poll)
	before := written()
	assert.Never(t, func() bool { return written() > before }, 2*interval, testenv.Poll, "an unchanged history is not written")
	assert.InDelta(t, before, m.Value(t, "upright_checkpoint_writes_total", "ok"), 0)
	assert.Zero(t, m.Value(t, "upright_checkpoint_writes_total", "failed"))
	m.Stop()
	assert.Equal(t, before, written(), "a manager that stops does not write it either")
}

func TestFailedCheckpointIsRetriedUntilItIsWritten(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 2)...)
	options := newOptions()
	options.CheckpointInterval = time.Second
	var failures atomic.Int64
	failures.Store(3)
	m := startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source}, failCheckpointWrites(&failures))
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 2 }, testenv.Timeout, testenv.Poll)
	assert.InDelta(t, 3, m.Value(t, "upright_checkpoint_writes_total", "failed"), 0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.InDelta(c, 1, m.Value(c, "upright_checkpoint_writes_total", "ok"), 0)
	}, testenv.Timeout, testenv.Poll)
}

func TestNoCheckpointIsWrittenWithoutHistory(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	var writes testenv.Writes
	m := startManager(t, namespace, &testenv.Meter{}, writes.Record)
	waitForReady(t, scaler, isFalse, "NoSamples")
	suspended := testenv.NewScaler(namespace, "suspended", "paused")
	suspended.Spec.Suspend = true
	waitForReady(t, testenv.Create(t, env, suspended), isFalse, "Suspended")
	withHalfLife := testenv.NewScaler(namespace, "with-half-life", "api")
	withHalfLife.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: 48 * time.Hour}}
	waitForReady(t, testenv.Create(t, env, withHalfLife), isFalse, "DeploymentNotFound")
	m.Stop()
	assert.Empty(t, writes.To("/verticalscalercheckpoints"))
}
