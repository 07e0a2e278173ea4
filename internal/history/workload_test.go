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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/pods"
	"example.com/upright/internal/recommender"
)

// newTestHistory returns the history of a new scaler.
func newTestHistory() *WorkloadHistory {
	return NewStore().History(newScaler("web", "1"), monday)
}

// oomKill returns an OOM kill of a container that had 300 Mi.
func oomKill(pod types.UID, container string, at time.Time) OOMKill {
	return OOMKill{OOMKill: pods.OOMKill{Pod: pod, Container: container, FinishedAt: at}, Memory: 300 * mebi}
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
	kill := oomKill("pod", "app", monday)
	later, otherContainer, otherPod := kill, kill, kill
	later.FinishedAt = monday.Add(time.Second)
	otherContainer.Container = "sidecar"
	otherPod.Pod = "another"
	for _, step := range []struct {
		name   string
		kill   OOMKill
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
		assert.Equal(t, step.counts, history.AddOOMKill(step.kill, monday.Add(time.Hour)), step.name)
	}
}

// 300 Mi + 100 Mi lies in the bucket from 414.3 to 445.0 MB. 445.0 MB * 1.15 = 488.04 Mi.
func TestOOMKillRaisesTheTarget(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	require.True(t, history.AddOOMKill(oomKill("pod", "app", monday), monday))
	assert.Equal(t, int64(489*mebi), recommend(history, "app").Memory.Target)
	assert.Zero(t, recommend(history, "other"))
}

func TestOOMKillsOfDeletedPodsStillCountInRecommendation(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for _, pod := range []types.UID{"deleted", "present"} {
		require.True(t, history.AddOOMKill(oomKill(pod, "app", monday), monday))
	}
	require.Len(t, history.Checkpoint(monday).OOMKills, 2)
	history.ObservePods([]corev1.Pod{newPod("present").pod}, nil, monday)
	kills := history.Checkpoint(monday).OOMKills
	require.Len(t, kills, 1)
	assert.Equal(t, types.UID("present"), kills[0].PodUID)
	history.ObservePods(nil, nil, monday)
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

func TestHistoryStartsAgainAfter28DaysOfSilence(t *testing.T) {
	t.Parallel()
	for silence, want := range map[time.Duration]int64{28 * day: 101, 28*day + time.Second: 1} {
		history := newTestHistory()
		for range 100 {
			addUsage(t, history, "app", monday, 2)
		}
		addUsage(t, history, "app", monday.Add(silence), 0.12)
		got := recommend(history, "app")
		assert.Equal(t, want, got.Samples, silence)
		if want == 1 {
			assert.Equal(t, int64(145), got.CPU.Target)
			assert.Equal(t, monday.Add(silence), firstSample(history))
		}
	}
}

// A container can be killed before it has a usage sample. It is in use nevertheless.
func TestContainerWithOnlyAnOOMKillIsKept(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	require.True(t, history.AddOOMKill(oomKill("pod", "killed", monday), monday))
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
			history.AddOOMKill(oomKill("pod", "app", later()), later())
			return nil
		},
		func() error { history.ObservePods([]corev1.Pod{newPod("other").pod}, nil, later()); return nil },
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
			history.SkipOOMKill(oomKill("pod", "app", later()), later())
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
