package history

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/pods"
	"example.com/upright/internal/recommender"
)

// newTestHistory returns the history of a new scaler.
func newTestHistory() *WorkloadHistory {
	return NewStore().History(newScaler("web", "1"), monday)
}

// only returns a function that reports whether a pod is the given one.
func only(present types.UID) func(types.UID) bool {
	return func(pod types.UID) bool { return pod == present }
}

func TestInvalidSampleIsRejectedAndChangesNothing(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	addUsage(t, history, "app", monday, 0.12)
	want := history.Checkpoint(monday)
	for name, add := range map[string]func(container string) error{
		"negative CPU":       func(c string) error { return history.AddUsage(c, monday, -1, mebi) },
		"CPU NaN":            func(c string) error { return history.AddUsage(c, monday, math.NaN(), mebi) },
		"negative memory":    func(c string) error { return history.AddUsage(c, monday, 1, -1) },
		"usage without time": func(c string) error { return history.AddUsage(c, time.Time{}, 1, mebi) },
		"kill without time": func(c string) error {
			_, err := history.AddOOMKill(pods.OOMKill{Pod: "pod", Container: c})
			return err
		},
		"kill with a negative request": func(c string) error {
			_, err := history.AddOOMKill(pods.OOMKill{Pod: "pod", Container: c, FinishedAt: monday, Request: -1})
			return err
		},
	} {
		for _, container := range []string{"app", "unknown"} {
			require.ErrorIs(t, add(container), recommender.ErrInvalidSample, "%s of %s", name, container)
		}
	}
	assert.Equal(t, want, history.Checkpoint(monday))
}

func TestOOMKillCountsOnce(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	kill := pods.OOMKill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi}
	later, otherContainer, otherPod := kill, kill, kill
	later.FinishedAt = monday.Add(time.Second)
	otherContainer.Container = "sidecar"
	otherPod.Pod = "another"
	for _, step := range []struct {
		name   string
		kill   pods.OOMKill
		counts bool
	}{
		{"first kill", kill, true},
		{"same kill again", kill, false},
		{"another container of the pod", otherContainer, true},
		{"same container of another pod", otherPod, true},
		{"later kill", later, true},
		{"later kill again", later, false},
		{"first kill again, after the later one", kill, false},
	} {
		counts, err := history.AddOOMKill(step.kill)
		require.NoError(t, err, step.name)
		assert.Equal(t, step.counts, counts, step.name)
	}
}

// 300 Mi + 100 Mi lies in the bucket from 414.3 to 445.0 MB. 445.0 MB * 1.15 = 488.04 Mi.
func TestOOMKillRaisesTheTarget(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	_, err := history.AddOOMKill(pods.OOMKill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi})
	require.NoError(t, err)
	assert.Equal(t, int64(489*mebi), recommend(history, "app").Memory.Target)
	assert.Zero(t, recommend(history, "other"))
}

func TestPrunedOOMKillsStillCountInRecommendation(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for _, pod := range []types.UID{"deleted", "present"} {
		_, err := history.AddOOMKill(pods.OOMKill{Pod: pod, Container: "app", FinishedAt: monday, Request: 300 * mebi})
		require.NoError(t, err)
	}
	require.Len(t, history.Checkpoint(monday).OOMKills, 2)
	history.PruneOOMKills(only("present"))
	kills := history.Checkpoint(monday).OOMKills
	require.Len(t, kills, 1)
	assert.Equal(t, types.UID("present"), kills[0].PodUID)
	history.PruneOOMKills(only("other"))
	assert.Empty(t, history.Checkpoint(monday).OOMKills)
	assert.Equal(t, int64(489*mebi), recommend(history, "app").Memory.Target)
}

func TestBackfillAddsUsageOnce(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	addUsage(t, history, "app", monday, 0.12)
	past := map[string]*recommender.History{"app": recommender.New(history.HalfLife()), "sidecar": recommender.New(history.HalfLife())}
	for _, container := range past {
		require.NoError(t, container.AddCPU(monday.Add(-day), 0.5))
	}
	assert.False(t, history.Backfilled())
	for range 2 {
		history.Backfill(past, Past{})
		assert.True(t, history.Backfilled())
		assert.Equal(t, int64(2), recommend(history, "app").Samples)
		assert.Equal(t, int64(1), recommend(history, "sidecar").Samples)
	}
	addUsage(t, history, "sidecar", monday, 0.12)
	assert.Equal(t, monday.Add(-day), past["sidecar"].LastSample(), "Backfill does not share the caller's histories")
}

func TestThe64ContainersWithNewestSamplesAreKept(t *testing.T) {
	t.Parallel()
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	for order, position := range map[string]func(int) int{
		"oldest first": func(i int) int { return i },
		"newest first": func(i int) int { return maxContainers - i },
	} {
		history := newTestHistory()
		for i := range maxContainers + 1 {
			at := position(i)
			addUsage(t, history, name(at), monday.Add(time.Duration(at)*time.Minute), 0.12)
		}
		assert.Len(t, history.Checkpoint(monday).Containers, 64, order)
		assert.Zero(t, recommend(history, name(0)), "%s: the oldest sample", order)
		assert.NotZero(t, recommend(history, name(1)), order)
		assert.NotZero(t, recommend(history, name(maxContainers)), order)
	}
}

func TestNewContainerDropsThoseUnusedForMoreThan28Days(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	addUsage(t, history, "dropped", monday.Add(-time.Second), 0.12)
	addUsage(t, history, "kept", monday, 0.12)
	addUsage(t, history, "used", monday.Add(28*day), 0.12)
	assert.Zero(t, recommend(history, "dropped"))
	assert.NotZero(t, recommend(history, "kept"))
	assert.NotZero(t, recommend(history, "used"))
}

// A container can be killed before it has a usage sample. It is in use nevertheless.
func TestContainerWithOnlyAnOOMKillIsKept(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	_, err := history.AddOOMKill(pods.OOMKill{Pod: "pod", Container: "killed", FinishedAt: monday, Request: 300 * mebi})
	require.NoError(t, err)
	addUsage(t, history, "sidecar", monday, 0.12)
	addUsage(t, history, "proxy", monday, 0.12)
	assert.Equal(t, int64(489*mebi), recommend(history, "killed").Memory.Target)
}

// The race detector fails this test if two calls access the same memory without a lock.
func TestStoreAndHistoriesAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	store, scaler := NewStore(), newScaler("web", "1")
	history := store.History(scaler, monday)
	checkpoint := stored(t, filled(t, scaler), monday)
	past := map[string]*recommender.History{"past": recommender.New(history.HalfLife())}
	var rounds atomic.Int64
	later := func() time.Time { return monday.Add(time.Duration(rounds.Add(1)) * time.Second) }
	var group errgroup.Group
	for _, call := range []func() error{
		func() error { return history.AddUsage("app", later(), 0.12, 300*mebi) },
		func() error { return history.AddUsage("sidecar", later(), 0.12, 300*mebi) },
		func() error {
			_, err := history.AddOOMKill(pods.OOMKill{Pod: "pod", Container: "app", FinishedAt: later(), Request: 300 * mebi})
			return err
		},
		func() error { history.PruneOOMKills(only("other")); return nil },
		func() error { recommend(history, "app"); return nil },
		func() error { history.PastLeft(day, time.Minute, later()); return nil },
		func() error { history.Lost(); return nil },
		func() error { history.HalfLife(); return nil },
		func() error { history.Backfilled(); return nil },
		func() error { history.Backfill(past, Past{}); return nil },
		func() error { history.Checkpoint(later()); return nil },
		func() error { history.MarkUnsaved(); return nil },
		func() error { store.History(withHalfLife(scaler, time.Hour), monday); return nil },
		func() error { store.History(scaler, monday); return nil },
		func() error { store.History(newScaler("api", "2"), monday); return nil },
		func() error { store.Unsaved(later()); return nil },
		func() error { return store.Restore(checkpoint, monday) },
		func() error {
			history.SkipOOMKill(pods.OOMKill{Pod: "pod", Container: "app", FinishedAt: later(), Request: 300 * mebi})
			return nil
		},
		func() error { store.Scalers(); return nil },
		func() error { store.Forget(map[types.UID]bool{"2": true}); return nil },
	} {
		group.Go(func() (err error) {
			for range 200 {
				err = errors.Join(err, call())
				runtime.Gosched() // Otherwise one call finishes all its rounds before the next call starts.
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	assert.Same(t, history, store.History(scaler, monday))
}

func TestConcurrentSamplesAreAllAdded(t *testing.T) {
	t.Parallel()
	const workers, rounds = 4, 1000
	history := newTestHistory()
	var group errgroup.Group
	for range workers {
		group.Go(func() (err error) {
			for range rounds {
				err = errors.Join(err, history.AddUsage("app", monday, 0.12, 300*mebi))
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	assert.Equal(t, int64(workers*rounds), recommend(history, "app").Samples)
}
