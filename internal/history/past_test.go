package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// firstSample returns the time of the oldest sample of any container, or zero without samples.
func firstSample(history *WorkloadHistory) time.Time {
	var first time.Time
	for _, container := range history.containers {
		if at := container.FirstSample(); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// pastOf returns a history of a container with a sample.
func pastOf(t *testing.T, at time.Time) *recommender.History {
	t.Helper()
	past := recommender.New(recommender.DefaultHalfLife)
	require.NoError(t, past.AddCPU(at, 0.5))
	return past
}

func TestPastEndsBeforeOldestSampleOfAnyContainer(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	require.True(t, history.AddOOMKill(oomKill("pod", "killed", monday), monday))
	now := monday.Add(3*day + time.Millisecond)
	assert.Equal(t, Past{From: monday.Add(2 * day), To: monday.Add(3*day - time.Minute)}, history.PastLeft(day, time.Minute, now),
		"a kill is not a usage sample")
	for container, at := range map[string]time.Time{"app": monday.Add(day), "sidecar": monday.Add(time.Hour), "proxy": monday.Add(2 * day)} {
		addUsage(t, history, container, at, 0.12)
	}
	for range 20 { // The order of the containers differs each time.
		require.Equal(t, Past{From: monday.Add(time.Hour - day), To: monday.Add(time.Hour - time.Minute)}, history.PastLeft(day, time.Minute, now))
	}
}

func TestPastIsAddedInPartsAcrossRestarts(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	history := NewStore().History(scaler, monday)
	for part := range 3 {
		left := history.PastLeft(3*day, time.Minute, monday)
		at := monday.Add(-time.Duration(part) * day).Add(-time.Minute)
		require.Equal(t, Past{From: monday.Add(-3 * day), To: at}, left)
		history.Backfill(map[string]*recommender.History{"app": pastOf(t, at)}, Past{From: left.From, To: left.To.Add(-day)})
		require.Equal(t, int64(part+1), recommend(history, "app").Samples)
		require.Equal(t, part == 2, history.Backfilled())

		store := NewStore()
		require.NoError(t, store.Restore(stored(t, history, monday), monday))
		history = store.History(scaler, monday)
	}
	assert.True(t, history.Backfilled())
}

func TestOnlyLostContainerGetsItsPastAgain(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	checkpoint := stored(t, filled(t, scaler), monday)
	checkpoint.Data.Containers[0].History[3]++
	store := NewStore()
	require.Error(t, store.Restore(checkpoint, monday))
	history := store.History(scaler, monday)
	assert.Equal(t, []string{"app"}, history.Lost())
	assert.False(t, history.Backfilled())
	assert.Equal(t, Stored{Version: checkpoint.ResourceVersion, IsUnreadable: true}, history.Stored())
	assert.Len(t, due(store, dueAfter), 1, "the next checkpoint keeps the damaged data")

	addUsage(t, history, "app", monday.Add(time.Hour), 0.12)
	left := history.PastLeft(day, time.Minute, monday.Add(2*time.Hour))
	assert.Equal(t, Past{From: monday.Add(time.Hour - day), To: monday.Add(time.Hour - time.Minute)}, left, "only new samples of the lost container count")
	before := recommend(history, "sidecar")
	past := map[string]*recommender.History{"app": pastOf(t, monday), "sidecar": pastOf(t, monday)}
	history.Backfill(past, Past{From: left.From, To: monday})
	assert.Equal(t, []string{"app"}, history.Lost(), "a part is left")

	restarted := NewStore()
	require.NoError(t, restarted.Restore(stored(t, history, monday), monday))
	history = restarted.History(scaler, monday)
	assert.Equal(t, []string{"app"}, history.Lost())
	assert.Equal(t, Past{From: left.From, To: monday}, history.PastLeft(day, time.Minute, monday))
	history.Backfill(nil, Past{})
	assert.True(t, history.Backfilled())
	assert.Empty(t, history.Lost())
	assert.Equal(t, int64(2), recommend(history, "app").Samples)
	assert.Equal(t, before, recommend(history, "sidecar"), "its past counts once")
}

func TestLostHistoryIsCompleteAfterADayOfSamples(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	checkpoint := &autoscalingv1beta1.VerticalScalerCheckpoint{ObjectMeta: stored(t, filled(t, scaler), monday).ObjectMeta}
	store := NewStore()
	require.NoError(t, store.RestoreUnreadable(checkpoint, monday))
	history := store.History(scaler, monday)
	assert.Equal(t, []string{AllContainers}, history.Lost())
	assert.Same(t, history, store.History(scaler, monday))
	addUsage(t, history, "app", monday, 0.12)
	addUsage(t, history, "app", monday.Add(day-time.Second), 0.12)
	assert.Equal(t, []string{AllContainers}, history.Lost())
	addUsage(t, history, "app", monday.Add(day), 0.12)
	assert.Empty(t, history.Lost())
	assert.Empty(t, history.Checkpoint(monday).LostContainers)
}

func TestSupersededHistoryIsNotSaved(t *testing.T) {
	t.Parallel()
	store := NewStore()
	history := store.History(newScaler("web", "1"), monday)
	addUsage(t, history, "app", monday, 0.12)
	require.Len(t, due(store, dueAfter), 1)
	history.Supersede()
	addUsage(t, history, "app", monday.Add(day), 0.12)
	assert.Empty(t, due(store, 2*day))
}
