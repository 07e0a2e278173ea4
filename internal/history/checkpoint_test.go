package history

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

// stored returns a checkpoint of a history as the API server returns it.
func stored(t *testing.T, history *WorkloadHistory, now time.Time) *autoscalingv1beta1.VerticalScalerCheckpoint {
	t.Helper()
	key, uid := history.Scaler()
	written, err := json.Marshal(&autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{{UID: uid, Controller: new(true)}},
		},
		Data: history.Checkpoint(now),
	})
	require.NoError(t, err)
	read := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	require.NoError(t, json.Unmarshal(written, read))
	return read
}

// filled returns a history of a scaler with usage of two containers, an OOM kill, and a backfill.
func filled(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) *WorkloadHistory {
	t.Helper()
	history := NewStore().History(scaler, monday)
	for minute := range 3 * 1440 {
		at := monday.Add(time.Duration(minute) * time.Minute)
		addUsage(t, history, "app", at, 0.12*(1+math.Sin(float64(minute))))
		addUsage(t, history, "sidecar", at, 0.01)
	}
	require.True(t, history.AddOOMKill(oomKill("pod", "app", monday.Add(1500*time.Millisecond)), monday.Add(time.Minute)))
	history.Backfill(nil, Past{})
	return history
}

func TestRestoredHistoryEqualsSavedHistory(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	history := filled(t, scaler)
	checkpoint := stored(t, history, monday)
	store := NewStore()
	require.NoError(t, store.Restore(checkpoint, monday))
	restored := store.History(scaler, monday)

	for _, container := range []string{"app", "sidecar", "unknown"} {
		assert.Equal(t, recommend(history, container), recommend(restored, container), container)
	}
	assert.Equal(t, 36*time.Hour, restored.HalfLife())
	assert.True(t, restored.Backfilled())
	assert.Equal(t, firstSample(history), firstSample(restored))
	isNew := restored.AddOOMKill(oomKill("pod", "app", monday.Add(time.Second)), monday.Add(time.Minute))
	assert.False(t, isNew, "a kill counts once")
	assert.Empty(t, due(store, day), "the restored history is not due")
	assert.Equal(t, checkpoint.Data, stored(t, restored, monday).Data, "the next checkpoint is the same")
}

func TestRestoredHistoryAcceptsNewSamples(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	history := filled(t, scaler)
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, history, monday), monday))
	restored := store.History(scaler, monday)
	for _, h := range []*WorkloadHistory{history, restored} {
		addUsage(t, h, "app", monday.Add(5*day), 2)
		addUsage(t, h, "new", monday.Add(5*day), 2)
	}
	assert.Equal(t, recommend(history, "app"), recommend(restored, "app"))
	assert.Equal(t, recommend(history, "new"), recommend(restored, "new"))
	assert.Empty(t, due(store, dueAfter-1), "the interval starts with the restore")
	assert.Len(t, due(store, dueAfter), 1)
}

func TestEmptyHistoryIsRestoredAndNotDue(t *testing.T) {
	t.Parallel()
	scaler := withHalfLife(newScaler("web", "1"), 36*time.Hour)
	empty := NewStore().History(scaler, monday)
	empty.Backfill(nil, Past{})
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, empty, monday), monday))
	assert.True(t, store.History(scaler, monday).Backfilled())
	assert.Empty(t, due(store, day))
}

func TestCheckpointOfAnotherWorkloadIsIgnored(t *testing.T) {
	t.Parallel()
	retargeted := newScaler("web", "1")
	retargeted.Spec.DeploymentName = "api"
	for name, scaler := range map[string]*autoscalingv1beta1.VerticalScaler{
		"re-created scaler": newScaler("web", "2"), "new target": retargeted,
	} {
		store := NewStore()
		require.NoError(t, store.Restore(stored(t, filled(t, newScaler("web", "1")), monday), monday), name)
		history := store.History(scaler, monday)
		assert.Zero(t, recommend(history, "app"), name)
		assert.False(t, history.Backfilled(), name)
	}
}

func TestOtherContainersAreRestoredIfOneIsDamaged(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	history := filled(t, scaler)
	for i, other := range []string{"sidecar", "app"} {
		checkpoint := stored(t, history, monday)
		damaged := checkpoint.Data.Containers[i]
		damaged.History[len(damaged.History)/2] ^= 1

		store := NewStore()
		err := store.Restore(checkpoint, monday)
		require.ErrorIs(t, err, recommender.ErrCheckpoint)
		require.EqualError(t, err, `restore container "`+damaged.ContainerName+
			`" of VerticalScalerCheckpoint default/web: unusable checkpoint: the checksum is wrong`)
		restored := store.History(scaler, monday)
		assert.Zero(t, recommend(restored, damaged.ContainerName))
		assert.Equal(t, recommend(history, other), recommend(restored, other))
		assert.Len(t, restored.Checkpoint(monday).OOMKills, 1)
	}
}

func TestRestoreErrorNamesEveryDamagedContainer(t *testing.T) {
	t.Parallel()
	checkpoint := stored(t, filled(t, newScaler("web", "1")), monday)
	for i := range checkpoint.Data.Containers {
		checkpoint.Data.Containers[i].History = nil
	}
	err := NewStore().Restore(checkpoint, monday)
	require.ErrorContains(t, err, `container "app"`)
	require.ErrorContains(t, err, `container "sidecar"`)
}

func TestCheckpointWithoutControllerIsRejected(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	for name, owners := range map[string][]metav1.OwnerReference{
		"no owner": nil, "owner that is not the controller": {{UID: "1"}},
	} {
		store := NewStore()
		checkpoint := stored(t, filled(t, scaler), monday)
		checkpoint.OwnerReferences = owners
		require.EqualError(t, store.Restore(checkpoint, monday),
			"VerticalScalerCheckpoint default/web has no controller among its owners", name)
		assert.Zero(t, recommend(store.History(scaler, monday), "app"), name)
	}
}

func TestRestoreKeepsExistingHistory(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	store := NewStore()
	history := store.History(scaler, monday)
	addUsage(t, history, "app", monday, 0.12)
	for _, uid := range []types.UID{"1", "2"} {
		require.NoError(t, store.Restore(stored(t, filled(t, newScaler("web", uid)), monday), monday))
		assert.Same(t, history, store.History(scaler, monday))
		assert.Equal(t, int64(1), recommend(history, "app").Samples)
	}
}

// The order of maps is random, but must not change the checkpoint.
func TestUnchangedHistoryHasSameCheckpoint(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for _, name := range []string{"d", "a", "c", "b", "e"} {
		addUsage(t, history, name, monday, 0.12)
		for _, pod := range []types.UID{"2", "1", "3"} {
			require.True(t, history.AddOOMKill(oomKill(pod, name, monday), monday))
		}
	}
	want := history.Checkpoint(monday)
	require.Len(t, want.OOMKills, 15)
	for range 10 {
		assert.Equal(t, want, history.Checkpoint(monday))
	}
}

func TestCheckpointOfTwoWeeksTakesAtMost1KiBPerContainer(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for minute := range 14 * 1440 {
		dailyCycle := 1.2 + math.Sin(float64(minute)*2*math.Pi/1440)
		noise := 1 + 0.3*math.Sin(float64(minute)*1.7)
		if minute%613 == 0 {
			noise = 4
		}
		at := monday.Add(time.Duration(minute) * time.Minute)
		require.NoError(t, history.AddUsage("app", at, 0.25*dailyCycle*noise, int64(400*mebi*noise)))
	}
	data, err := json.Marshal(history.Checkpoint(monday))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(data), 1024)
}
