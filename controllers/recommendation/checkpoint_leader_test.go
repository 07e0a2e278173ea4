package recommendation_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

// These managers have no lease. So each of them is a leader that does not know of the others, as
// a leader that was stopped for a while and continues.

func TestEarlierLeaderDoesNotReplaceCheckpointOfLaterOne(t *testing.T) {
	t.Parallel()
	for name, isCheckpointKnown := range map[string]bool{"checkpoint of both": true, "checkpoint of the later one alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			if isCheckpointKnown {
				testenv.Create(t, env, newCheckpoint(scaler))
			}
			var ofEarlier, ofLater testenv.Meter
			ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
			ofLater.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 5)...)
			var writes testenv.Writes
			earlier := startManager(t, namespace, &ofEarlier, writes.Record)
			waitForReady(t, scaler, isTrue, "Recommended")
			later := startManager(t, namespace, &ofLater)
			ofLater.WaitUntilLearned(t)
			later.Stop()
			saved := checkpoint(t, scaler)
			assert.Equal(t, int64(5), savedSamples(t, scaler))

			ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.9, 900, 1)...) // Its usage is the newest.
			ofEarlier.WaitUntilLearned(t)
			earlier.Stop()
			assert.Equal(t, saved, checkpoint(t, scaler))
			assert.Len(t, writes.To("/verticalscalercheckpoints"), 1, "the only try")
		})
	}
}

func TestEarlierLeaderStopsWritingItsCheckpoint(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var ofEarlier, ofLater testenv.Meter
	ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
	ofLater.Set(afterRestart(testenv.SteadyUsage(pod, "app", 0.3, 300, 1))...)
	options := newOptions()
	options.CheckpointInterval = 300 * time.Millisecond
	var writes testenv.Writes
	earlier := startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &ofEarlier}, writes.Record)
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 1 }, testenv.Timeout, testenv.Poll)
	later := startManager(t, namespace, &ofLater)
	ofLater.WaitUntilLearned(t)
	later.Stop()
	require.Equal(t, int64(2), savedSamples(t, scaler))

	ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.9, 900, 1)...)
	require.Eventually(t, func() bool { return earlier.Value(t, "upright_checkpoint_writes_total", "superseded") == 1 },
		testenv.Timeout, testenv.Poll)
	tried := len(writes.To("/verticalscalercheckpoints"))
	ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.9, 900, 1)...)
	ofEarlier.WaitUntilLearned(t)
	assert.Never(t, func() bool { return len(writes.To("/verticalscalercheckpoints")) > tried }, 2*options.CheckpointInterval, testenv.Poll)
	earlier.Stop()
	assert.Len(t, writes.To("/verticalscalercheckpoints"), tried)
	assert.Equal(t, int64(2), savedSamples(t, scaler))
}

func TestLaterLeaderReplacesCheckpointOfEarlierOne(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	before := newCheckpoint(scaler)
	testenv.Create(t, env, before)
	var ofEarlier, ofLater testenv.Meter
	ofEarlier.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
	ofLater.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 5)...)
	earlier := startManager(t, namespace, &ofEarlier)
	waitForReady(t, scaler, isTrue, "Recommended")
	later := startManager(t, namespace, &ofLater)
	ofLater.WaitUntilLearned(t)
	earlier.Stop() // It writes after the later one has read the checkpoint.
	assert.Equal(t, int64(1), savedSamples(t, scaler))
	later.Stop()
	assert.Equal(t, int64(5), savedSamples(t, scaler))
	assert.Equal(t, before.UID, checkpoint(t, scaler).UID)
}

func TestLeaderKeepsWritingItsCheckpoint(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *autoscalingv1beta1.VerticalScalerCheckpoint){
		"after another label": func(t *testing.T, saved *autoscalingv1beta1.VerticalScalerCheckpoint) {
			testenv.Edit(t, env, saved, func(c *autoscalingv1beta1.VerticalScalerCheckpoint) { c.Labels = map[string]string{"a": "b"} })
		},
		"after its deletion": func(t *testing.T, saved *autoscalingv1beta1.VerticalScalerCheckpoint) {
			testenv.Delete(t, env, saved)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			var source testenv.Meter
			source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 2)...)
			m := startManager(t, namespace, &source)
			waitForReady(t, scaler, isTrue, "Recommended")
			m.Stop()

			source.Set(afterRestart(testenv.SteadyUsage(pod, "app", 0.3, 300, 1))...)
			m = startManager(t, namespace, &source)
			source.WaitUntilLearned(t)
			change(t, checkpoint(t, scaler))
			m.Stop()
			assert.Equal(t, int64(3), savedSamples(t, scaler))
		})
	}
}

func TestCheckpointWithLostAnswerIsWrittenAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 2)...)
	options := newOptions()
	options.CheckpointInterval = 300 * time.Millisecond
	var lost atomic.Int64
	lost.Store(2)
	startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source}, loseCheckpointAnswers(&lost))
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 2 }, testenv.Timeout, testenv.Poll)
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 3 }, testenv.Timeout, testenv.Poll)
	assert.Negative(t, lost.Load())
}
