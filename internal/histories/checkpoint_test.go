package histories

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// stored returns a record's checkpoint as the API server hands it out.
func stored(t *testing.T, record *Record, now time.Time) *autoscalingv1beta1.VerticalScalerCheckpoint {
	t.Helper()
	key, uid := record.Scaler()
	written, err := json.Marshal(&autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{{UID: uid, Controller: new(true)}},
		},
		Data: record.Checkpoint(now),
	})
	require.NoError(t, err)
	read := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	require.NoError(t, json.Unmarshal(written, read))
	return read
}

// learned returns the record of a scaler with a half-life of 36 h that has seen two
// containers, a kill, and the past.
func learned(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) *Record {
	t.Helper()
	record := NewStore().Record(scaler, monday)
	for minute := range 3 * 1440 {
		at := monday.Add(time.Duration(minute) * time.Minute)
		addUsage(t, record, "app", at, 0.12*(1+math.Sin(float64(minute))))
		addUsage(t, record, "sidecar", at, 0.01)
	}
	_, err := record.AddKill(Kill{Pod: "pod", Container: "app", FinishedAt: monday.Add(1500 * time.Millisecond), Request: 300 * mebi})
	require.NoError(t, err)
	record.Backfill(nil)
	return record
}

func TestARestoredRecordIsTheOneThatWasSaved(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	record := learned(t, scaler)
	checkpoint := stored(t, record, monday)
	store := NewStore()
	require.NoError(t, store.Restore(checkpoint, monday))
	restored := store.Record(scaler, monday)

	for _, container := range []string{"app", "sidecar", "unknown"} {
		assert.Equal(t, recommend(record, container), recommend(restored, container), container)
	}
	assert.Equal(t, 36*time.Hour, restored.HalfLife())
	assert.True(t, restored.Backfilled())
	assert.Equal(t, record.FirstSample(), restored.FirstSample())
	isNew, err := restored.AddKill(Kill{Pod: "pod", Container: "app", FinishedAt: monday.Add(time.Second), Request: 300 * mebi})
	require.NoError(t, err)
	assert.False(t, isNew, "a kill that counted before does not count again")
	assert.Empty(t, due(store, day), "nothing is to be saved")
	assert.Equal(t, checkpoint.Data, stored(t, restored, monday).Data, "and it would be saved as it was")
}

func TestARecordGoesOnLearningAfterItIsRestored(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	record := learned(t, scaler)
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, record, monday), monday))
	restored := store.Record(scaler, monday)
	for _, r := range []*Record{record, restored} {
		addUsage(t, r, "app", monday.Add(5*day), 2)
		addUsage(t, r, "new", monday.Add(5*day), 2)
	}
	assert.Equal(t, recommend(record, "app"), recommend(restored, "app"))
	assert.Equal(t, recommend(record, "new"), recommend(restored, "new"))
	assert.Empty(t, due(store, dueAfter-1), "an interval begins with the start")
	assert.Len(t, due(store, dueAfter), 1)
}

func TestARecordThatHasLearnedNothingIsRestoredAndNotSavedAgain(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	empty := NewStore().Record(scaler, monday)
	empty.Backfill(nil)
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, empty, monday), monday))
	assert.True(t, store.Record(scaler, monday).Backfilled())
	assert.Empty(t, due(store, day))
}

func TestTheCheckpointOfAnotherWorkloadTeachesAScalerNothing(t *testing.T) {
	t.Parallel()
	turned := newScaler("web", "1")
	turned.Spec.DeploymentName = "api"
	for name, scaler := range map[string]*autoscalingv1beta1.VerticalScaler{
		"of the scaler before it": newScaler("web", "2"), "of the Deployment before it": turned,
	} {
		store := NewStore()
		require.NoError(t, store.Restore(stored(t, learned(t, newScaler("web", "1")), monday), monday), name)
		record := store.Record(scaler, monday)
		assert.Zero(t, recommend(record, "app"), name)
		assert.False(t, record.Backfilled(), name)
	}
}

func TestADamagedHistoryIsNamedAndTheOthersAreRestored(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	record := learned(t, scaler)
	for i, other := range []string{"sidecar", "app"} {
		checkpoint := stored(t, record, monday)
		damaged := checkpoint.Data.Containers[i]
		damaged.History[len(damaged.History)/2] ^= 1

		store := NewStore()
		err := store.Restore(checkpoint, monday)
		require.ErrorIs(t, err, recommender.ErrCheckpoint)
		require.EqualError(t, err, `restore container "`+damaged.ContainerName+
			`" of VerticalScalerCheckpoint shop/web: unusable checkpoint: the checksum is wrong`)
		restored := store.Record(scaler, monday)
		assert.Zero(t, recommend(restored, damaged.ContainerName))
		assert.Equal(t, recommend(record, other), recommend(restored, other))
		assert.Len(t, restored.Checkpoint(monday).OOMKills, 1)
		assert.True(t, restored.Backfilled())
	}
}

func TestTheErrorNamesEveryDamagedHistory(t *testing.T) {
	t.Parallel()
	checkpoint := stored(t, learned(t, newScaler("web", "1")), monday)
	for i := range checkpoint.Data.Containers {
		checkpoint.Data.Containers[i].History = nil
	}
	err := NewStore().Restore(checkpoint, monday)
	require.ErrorContains(t, err, `container "app"`)
	require.ErrorContains(t, err, `container "sidecar"`)
}

func TestACheckpointThatNobodyControlsIsRefused(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	for name, owners := range map[string][]metav1.OwnerReference{
		"without owner": nil, "with a mere owner": {{UID: "1"}},
	} {
		store := NewStore()
		checkpoint := stored(t, learned(t, scaler), monday)
		checkpoint.OwnerReferences = owners
		require.EqualError(t, store.Restore(checkpoint, monday),
			"VerticalScalerCheckpoint shop/web has no controller among its owners", name)
		assert.Zero(t, recommend(store.Record(scaler, monday), "app"), name)
	}
}

func TestACheckpointNeverReplacesWhatIsKnown(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	store := NewStore()
	record := store.Record(scaler, monday)
	addUsage(t, record, "app", monday, 0.12)
	for _, uid := range []types.UID{"1", "2"} {
		require.NoError(t, store.Restore(stored(t, learned(t, newScaler("web", uid)), monday), monday))
		assert.Same(t, record, store.Record(scaler, monday))
		assert.Equal(t, int64(1), recommend(record, "app").Samples)
	}
}

// The order of a map would make each checkpoint differ from the one before.
func TestTheSameRecordHasTheSameCheckpoint(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	for _, name := range []string{"d", "a", "c", "b", "e"} {
		addUsage(t, record, name, monday, 0.12)
		for _, pod := range []types.UID{"2", "1", "3"} {
			_, err := record.AddKill(Kill{Pod: pod, Container: name, FinishedAt: monday, Request: 1})
			require.NoError(t, err)
		}
	}
	want := record.Checkpoint(monday)
	require.Len(t, want.OOMKills, 15)
	for range 10 {
		assert.Equal(t, want, record.Checkpoint(monday))
	}
}

func TestACheckpointOfTwoWeeksTakesAtMost1KiBAContainer(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	for minute := range 14 * 1440 {
		rhythm := 1.2 + math.Sin(float64(minute)*2*math.Pi/1440)
		noise := 1 + 0.3*math.Sin(float64(minute)*1.7)
		if minute%613 == 0 {
			noise = 4
		}
		at := monday.Add(time.Duration(minute) * time.Minute)
		require.NoError(t, record.AddUsage("app", at, 0.25*rhythm*noise, int64(400*mebi*noise)))
	}
	data, err := json.Marshal(record.Checkpoint(monday))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(data), 1024)
}
