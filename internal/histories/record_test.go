package histories

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

	"example.com/upright/internal/recommender"
)

// newTestRecord returns the record of a scaler that is new.
func newTestRecord() *Record {
	return NewStore().Record(newScaler("web", "1"), monday)
}

// only returns whether a pod is the given one.
func only(present types.UID) func(types.UID) bool {
	return func(pod types.UID) bool { return pod == present }
}

func TestUsageThatCannotBeIsRefusedAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	addUsage(t, record, "app", monday, 0.12)
	want := record.Checkpoint(monday)
	for name, add := range map[string]func(container string) error{
		"negative CPU":    func(c string) error { return record.AddUsage(c, monday, -1, mebi) },
		"CPU no number":   func(c string) error { return record.AddUsage(c, monday, math.NaN(), mebi) },
		"negative memory": func(c string) error { return record.AddUsage(c, monday, 1, -1) },
		"no time":         func(c string) error { return record.AddUsage(c, time.Time{}, 1, mebi) },
		"kill without time": func(c string) error {
			_, err := record.AddKill(Kill{Pod: "pod", Container: c})
			return err
		},
		"kill of a negative request": func(c string) error {
			_, err := record.AddKill(Kill{Pod: "pod", Container: c, FinishedAt: monday, Request: -1})
			return err
		},
	} {
		for _, container := range []string{"app", "unknown"} {
			require.ErrorIs(t, add(container), recommender.ErrInvalidSample, "%s of %s", name, container)
		}
	}
	assert.Equal(t, want, record.Checkpoint(monday))
}

func TestAnOOMKillCountsOnce(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	kill := Kill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi}
	later, otherContainer, otherPod := kill, kill, kill
	later.FinishedAt = monday.Add(time.Second)
	otherContainer.Container = "sidecar"
	otherPod.Pod = "another"
	for _, step := range []struct {
		name   string
		kill   Kill
		counts bool
	}{
		{"the first", kill, true},
		{"the same again", kill, false},
		{"another container of the pod", otherContainer, true},
		{"the same container of another pod", otherPod, true},
		{"a later one", later, true},
		{"the later one again", later, false},
		{"the first, seen late", kill, false},
	} {
		counts, err := record.AddKill(step.kill)
		require.NoError(t, err, step.name)
		assert.Equal(t, step.counts, counts, step.name)
	}
}

// 300 Mi + 100 Mi is between buckets that end at 414.3 and 445.0 MB; 445.0 * 1.15 = 488.04 Mi.
func TestAnOOMKillRaisesTheTarget(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	_, err := record.AddKill(Kill{Pod: "pod", Container: "app", FinishedAt: monday, Request: 300 * mebi})
	require.NoError(t, err)
	assert.Equal(t, int64(489*mebi), recommend(record, "app").Memory.Target)
	assert.Zero(t, recommend(record, "other"))
}

func TestKillsOfPodsThatAreGoneLeaveTheCheckpointAndTheirLessonStays(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	for _, pod := range []types.UID{"gone", "present"} {
		_, err := record.AddKill(Kill{Pod: pod, Container: "app", FinishedAt: monday, Request: 300 * mebi})
		require.NoError(t, err)
	}
	require.Len(t, record.Checkpoint(monday).OOMKills, 2)
	record.KeepKills(only("present"))
	kills := record.Checkpoint(monday).OOMKills
	require.Len(t, kills, 1)
	assert.Equal(t, types.UID("present"), kills[0].PodUID)
	record.KeepKills(only("nobody"))
	assert.Empty(t, record.Checkpoint(monday).OOMKills)
	assert.Equal(t, int64(489*mebi), recommend(record, "app").Memory.Target)
}

func TestTheFirstSampleIsTheOldestOfAnyContainer(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	assert.True(t, record.FirstSample().IsZero())
	_, err := record.AddKill(Kill{Pod: "pod", Container: "killed", FinishedAt: monday, Request: 1})
	require.NoError(t, err)
	assert.True(t, record.FirstSample().IsZero(), "a kill is no sample of usage")
	for container, at := range map[string]time.Time{"app": monday.Add(day), "sidecar": monday.Add(time.Hour), "proxy": monday.Add(2 * day)} {
		addUsage(t, record, container, at, 0.12)
	}
	for range 20 { // Each time in another order of the containers.
		require.Equal(t, monday.Add(time.Hour), record.FirstSample())
	}
}

func TestThePastIsAddedOnce(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	addUsage(t, record, "app", monday, 0.12)
	past := map[string]*recommender.History{"app": recommender.New(record.HalfLife()), "sidecar": recommender.New(record.HalfLife())}
	for _, history := range past {
		require.NoError(t, history.AddCPU(monday.Add(-day), 0.5))
	}
	assert.False(t, record.Backfilled())
	for range 2 {
		record.Backfill(past)
		assert.True(t, record.Backfilled())
		assert.Equal(t, int64(2), recommend(record, "app").Samples)
		assert.Equal(t, int64(1), recommend(record, "sidecar").Samples)
	}
	addUsage(t, record, "sidecar", monday, 0.12)
	assert.Equal(t, monday.Add(-day), past["sidecar"].LastSample(), "the histories that were added are the caller's still")
}

func TestThe64ContainersUsedLastAreKept(t *testing.T) {
	t.Parallel()
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	for order, position := range map[string]func(int) int{
		"oldest first": func(i int) int { return i },
		"newest first": func(i int) int { return maxContainers - i },
	} {
		record := newTestRecord()
		for i := range maxContainers + 1 {
			at := position(i)
			addUsage(t, record, name(at), monday.Add(time.Duration(at)*time.Minute), 0.12)
		}
		assert.Len(t, record.Checkpoint(monday).Containers, 64, order)
		assert.Zero(t, recommend(record, name(0)), "%s: the one used longest ago", order)
		assert.NotZero(t, recommend(record, name(1)), order)
		assert.NotZero(t, recommend(record, name(maxContainers)), order)
	}
}

func TestAContainerUnusedForMoreThan28DaysIsDroppedForANewOne(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	addUsage(t, record, "dropped", monday.Add(-time.Second), 0.12)
	addUsage(t, record, "kept", monday, 0.12)
	addUsage(t, record, "used", monday.Add(28*day), 0.12)
	assert.Zero(t, recommend(record, "dropped"))
	assert.NotZero(t, recommend(record, "kept"))
	assert.NotZero(t, recommend(record, "used"))
}

// A container that is killed before its usage was ever measured is in use all the same.
func TestWhatAKillTaughtOutlastsTheUsageOfOtherContainers(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	_, err := record.AddKill(Kill{Pod: "pod", Container: "killed", FinishedAt: monday, Request: 300 * mebi})
	require.NoError(t, err)
	addUsage(t, record, "sidecar", monday, 0.12)
	addUsage(t, record, "proxy", monday, 0.12)
	assert.Equal(t, int64(489*mebi), recommend(record, "killed").Memory.Target)
}

// The race detector says whether two of the calls meet in memory.
func TestStoreAndRecordsMayBeUsedFromManyGoroutines(t *testing.T) {
	t.Parallel()
	store, scaler := NewStore(), newScaler("web", "1")
	record := store.Record(scaler, monday)
	checkpoint := stored(t, learned(t, scaler), monday)
	past := map[string]*recommender.History{"past": recommender.New(record.HalfLife())}
	var rounds atomic.Int64
	later := func() time.Time { return monday.Add(time.Duration(rounds.Add(1)) * time.Second) }
	var group errgroup.Group
	for _, call := range []func() error{
		func() error { return record.AddUsage("app", later(), 0.12, 300*mebi) },
		func() error { return record.AddUsage("sidecar", later(), 0.12, 300*mebi) },
		func() error { _, err := record.AddKill(Kill{"pod", "app", later(), 300 * mebi}); return err },
		func() error { record.KeepKills(only("nobody")); return nil },
		func() error { recommend(record, "app"); return nil },
		func() error { record.FirstSample(); return nil },
		func() error { record.HalfLife(); return nil },
		func() error { record.Backfilled(); return nil },
		func() error { record.Backfill(past); return nil },
		func() error { record.Checkpoint(later()); return nil },
		func() error { record.Unsave(); return nil },
		func() error { store.Record(withHalfLife(scaler, time.Hour), monday); return nil },
		func() error { store.Record(scaler, monday); return nil },
		func() error { store.Record(newScaler("api", "2"), monday); return nil },
		func() error { store.Unsaved(later()); return nil },
		func() error { return store.Restore(checkpoint, monday) },
		func() error { record.SkipKill(Kill{"pod", "app", later(), 300 * mebi}); return nil },
		func() error { store.Scalers(); return nil },
		func() error { store.Forget(map[types.UID]bool{"2": true}); return nil },
	} {
		group.Go(func() (err error) {
			for range 200 {
				err = errors.Join(err, call())
				runtime.Gosched() // Otherwise a call's rounds are over before the next call's begin.
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	assert.Same(t, record, store.Record(scaler, monday))
}

func TestNoSampleIsLostThatIsAddedAtTheSameTimeAsOthers(t *testing.T) {
	t.Parallel()
	const workers, rounds = 4, 1000
	record := newTestRecord()
	var group errgroup.Group
	for range workers {
		group.Go(func() (err error) {
			for range rounds {
				err = errors.Join(err, record.AddUsage("app", monday, 0.12, 300*mebi))
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	assert.Equal(t, int64(workers*rounds), recommend(record, "app").Samples)
}
