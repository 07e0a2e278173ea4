package recommendation_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

// damage changes a checkpoint so that its history cannot be restored, and returns its data.
type damage func(t *testing.T, saved *autoscalingv1beta1.VerticalScalerCheckpoint) any

// damages are a history with a wrong checksum, one of a newer version, and data that cannot be
// decoded at all: the API server accepts more times than the manager reads.
func damages() map[string]damage {
	edit := func(change func([]byte)) damage {
		return func(t *testing.T, saved *autoscalingv1beta1.VerticalScalerCheckpoint) any {
			testenv.Edit(t, env, saved, func(c *autoscalingv1beta1.VerticalScalerCheckpoint) { change(c.Data.Containers[0].History) })
			return saved.Data
		}
	}
	return map[string]damage{
		"wrong checksum": edit(func(history []byte) { history[3]++ }),
		"newer version":  edit(func(history []byte) { history[0]++ }),
		"undecodable": func(t *testing.T, saved *autoscalingv1beta1.VerticalScalerCheckpoint) any {
			patch := client.RawPatch(types.MergePatchType, []byte(
				`{"data": {"targets": [{"containerName": "app", "resource": "cpu", "since": "2026-01-05t00:00:00z", "amount": 1}]}}`))
			object := &metav1.PartialObjectMetadata{ObjectMeta: saved.ObjectMeta} // The whole object cannot be decoded here either.
			object.SetGroupVersionKind(autoscalingv1beta1.GroupVersion.WithKind("VerticalScalerCheckpoint"))
			require.NoError(t, env.Client.Patch(t.Context(), object, patch))
			return nil
		},
	}
}

func TestDamagedCheckpointIsKeptAndPastIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			intact, podOfIntact := createTarget(t, namespace, "zzz", "app") // Listed after the damaged one.
			kept := testenv.SteadyUsage(podOfIntact, "app", 0.3, 300, 2)
			var source testenv.Meter
			source.Set(append(testenv.SteadyUsage(pod, "app", 0.3, 300, 2), kept...)...)
			m := startManager(t, namespace, &source)
			waitForReady(t, scaler, isTrue, "Recommended")
			waitForReady(t, intact, isTrue, "Recommended")
			m.Stop()
			damaged := damage(t, checkpoint(t, scaler))

			source.Set()
			var writes testenv.Writes
			m = startManager(t, namespace, &source, writes.Record)
			waitForReady(t, scaler, isTrue, "HistoryDamaged")
			m.Stop()
			assert.Len(t, writes.To("/verticalscalercheckpoints"), 1)
			saved := checkpoint(t, scaler)
			require.NotNil(t, saved.Unreadable)
			if damaged != nil {
				var unreadable autoscalingv1beta1.VerticalScalerCheckpointData
				require.NoError(t, json.Unmarshal(saved.Unreadable.Raw, &unreadable))
				testenv.AssertSameJSON(t, damaged, unreadable)
			}

			// It is said until the past has been read again, also after another restart.
			past := archive{samples: pastUsage(namespace), answers: make(chan struct{})}
			startBackfill(t, namespace, 8*day, &source, &past)
			require.Eventually(t, func() bool { return len(past.Queries()) > 0 }, testenv.Timeout, testenv.Poll)
			waitForReady(t, scaler, isTrue, "HistoryDamaged")
			close(past.answers)
			waitForReady(t, scaler, isTrue, "Recommended")
			waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
			more := afterRestart(testenv.SteadyUsage(podOfIntact, "app", 0.9, 900, 1))
			source.Set(more...)
			waitForTargets(t, intact, recommendedFor(t, append(kept, more...), "app")...)
		})
	}
}

func TestDamagedCheckpointIsKeptAlsoIfItIsSeenOnlyWhenWriting(t *testing.T) {
	t.Parallel()
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			var source testenv.Meter
			source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 2)...)
			startManager(t, namespace, &source).Stop()
			m := startManager(t, namespace, &source)
			waitForReady(t, scaler, isTrue, "Recommended")
			m.Stop()
			m = startManagerWith(t, []string{namespace}, newOptions(), recommendation.Source{Source: &source})
			source.WaitUntilLearned(t)
			damage(t, checkpoint(t, scaler))
			more := afterRestart(testenv.SteadyUsage(pod, "app", 0.9, 900, 1))
			source.Set(more...)
			source.WaitUntilLearned(t)
			m.Stop()
			assert.Equal(t, int64(3), savedSamples(t, scaler))
			assert.NotNil(t, checkpoint(t, scaler).Unreadable)
		})
	}
}
