package history

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// recordTargets records memory targets of container app, one per hour from monday on.
func recordTargets(history *WorkloadHistory, amounts ...int64) {
	for hour, amount := range amounts {
		history.RecordTarget("app", corev1.ResourceMemory, amount, monday.Add(time.Duration(hour)*time.Hour))
	}
}

func TestTargetRangeIsMinimumAndMaximumOfWindow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		targets     []int64
		at, window  time.Duration
		least, most int64
		ok          bool
	}{
		"no target":                                  {nil, 0, 0, 0, 0, false},
		"target of now, empty window":                {[]int64{5}, 0, 0, 5, 5, true},
		"target younger than the window":             {[]int64{5}, time.Hour - time.Second, time.Hour, 5, 5, false},
		"target as old as the window":                {[]int64{5}, time.Hour, time.Hour, 5, 5, true},
		"target valid at the start of the window":    {[]int64{5, 7}, 90 * time.Minute, time.Hour, 5, 7, true},
		"target replaced at the start of the window": {[]int64{5, 7}, 2 * time.Hour, time.Hour, 7, 7, true},
		"targets up and down":                        {[]int64{5, 9, 2, 6}, 3 * time.Hour, 3 * time.Hour, 2, 9, true},
		"same target three times":                    {[]int64{5, 5, 5}, 2 * time.Hour, 2 * time.Hour, 5, 5, true},
		"alternating targets":                        {[]int64{5, 7, 5, 7, 5}, 4 * time.Hour, time.Hour, 5, 7, true},
		"alternating targets, empty window":          {[]int64{5, 7, 5, 7, 5}, 4 * time.Hour, 0, 5, 5, true},
		"zero does not start the window":             {[]int64{0, 0, 5}, 3 * time.Hour, 2 * time.Hour, 5, 5, false},
		"zero does not replace a target":             {[]int64{5, 0, 0}, 2 * time.Hour, 2 * time.Hour, 5, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := newTestHistory()
			recordTargets(history, test.targets...)
			least, most, ok := history.TargetRange("app", corev1.ResourceMemory, test.window, monday.Add(test.at))
			assert.Equal(t, test.ok, ok)
			assert.Equal(t, []int64{test.least, test.most}, []int64{least, most})
		})
	}
}

func TestEachContainerAndResourceHasItsOwnTargets(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	recordTargets(history, 5)
	for key, want := range map[targetKey]bool{
		{"app", corev1.ResourceMemory}: true, {"app", corev1.ResourceCPU}: false, {"web", corev1.ResourceMemory}: false,
	} {
		_, _, ok := history.TargetRange(key.container, key.resource, 0, monday)
		assert.Equal(t, want, ok, key)
	}
}

// allTargets holds all recorded targets. It drops none, unlike WorkloadHistory.
type allTargets []pastTarget

func (a allTargets) targetRange(window time.Duration, now time.Time) (least, most int64, ok bool) {
	for i, target := range a {
		if i+1 < len(a) && a[i+1].since <= now.Add(-window).Unix() {
			continue
		}
		if least == 0 {
			least, most, ok = target.amount, target.amount, target.since <= now.Add(-window).Unix()
		}
		least, most = min(least, target.amount), max(most, target.amount)
	}
	return least, most, ok
}

func TestPropertyDroppedTargetsChangeNoRange(t *testing.T) {
	t.Parallel()
	property := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		history, all, now := newTestHistory(), allTargets{}, monday
		for range 1 + r.Intn(60) {
			now = now.Add(time.Duration(r.Intn(4*3600)) * time.Second)
			amount := 1 + r.Int63n(12)
			history.RecordTarget("app", corev1.ResourceCPU, amount, now)
			all = append(all, pastTarget{now.Unix(), amount})
			window := time.Duration(r.Int63n(int64(maxWindow/time.Second))) * time.Second
			least, most, ok := history.TargetRange("app", corev1.ResourceCPU, window, now)
			wantLeast, wantMost, want := all.targetRange(window, now)
			if !assert.Equal(t, want, ok) || ok && !assert.Equal(t, []int64{wantLeast, wantMost}, []int64{least, most}, "%v: %v", window, all) {
				return false
			}
		}
		return true
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 1000, Rand: rand.New(rand.NewSource(1))}))
}

func TestTargetsOlderThanLongestWindowAreDropped(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for i := range 30 {
		history.RecordTarget("app", corev1.ResourceCPU, int64(100+i), monday.Add(time.Duration(i)*day))
	}
	now := monday.Add(29 * day)
	least, most, ok := history.TargetRange("app", corev1.ResourceCPU, maxWindow, now)
	assert.True(t, ok, "the targets cover the longest window")
	assert.Equal(t, []int64{122, 129}, []int64{least, most})
	assert.Len(t, history.Checkpoint(now).Targets, 8, "older targets are dropped")
}

func TestTargetThatChangesEachMinuteTakesLittleSpace(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	r := rand.New(rand.NewSource(1))
	for minute := range 7 * 1440 {
		history.RecordTarget("app", corev1.ResourceCPU, 100+r.Int63n(900), monday.Add(time.Duration(minute)*time.Minute))
	}
	data, err := json.Marshal(history.Checkpoint(monday).Targets)
	require.NoError(t, err)
	assert.Less(t, len(data), 4096)
}

func TestTargetsOfDroppedContainersAreDropped(t *testing.T) {
	t.Parallel()
	history := newTestHistory()
	for i := range 3 * maxContainers {
		name, at := fmt.Sprintf("app-%d", i), monday.Add(time.Duration(i)*time.Hour)
		addUsage(t, history, name, at, 0.12)
		history.RecordTarget(name, corev1.ResourceCPU, 100, at)
	}
	assert.Len(t, history.Checkpoint(monday).Targets, maxContainers)
}

func TestRestoredTargetsEqualSavedTargets(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	history := NewStore().History(scaler, monday)
	for i, container := range []string{"web", "app"} {
		for hour, amount := range []int64{500, 100, 400, 200, 300} {
			for _, resource := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
				history.RecordTarget(container, resource, amount*int64(1+i), monday.Add(time.Duration(hour)*time.Hour))
			}
		}
	}
	now := monday.Add(4 * time.Hour)
	checkpoint := stored(t, history, now)
	require.Len(t, checkpoint.Data.Targets, 20)
	store := NewStore()
	require.NoError(t, store.Restore(checkpoint, now))
	restored := store.History(scaler, now)
	for _, container := range []string{"web", "app"} {
		for _, resource := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
			for window := range 6 {
				type result struct {
					least, most int64
					ok          bool
				}
				var want, got result
				want.least, want.most, want.ok = history.TargetRange(container, resource, time.Duration(window)*time.Hour, now)
				got.least, got.most, got.ok = restored.TargetRange(container, resource, time.Duration(window)*time.Hour, now)
				assert.Equal(t, want, got, "%s of %s for %d h", resource, container, window)
			}
		}
	}
	assert.Empty(t, due(store, day), "the restored history is not due")
	assert.Equal(t, checkpoint.Data, stored(t, restored, now).Data, "the next checkpoint is the same")
}

func TestOnlyNewTargetMakesHistoryDue(t *testing.T) {
	t.Parallel()
	store := NewStore()
	history := store.History(newScaler("web", "1"), monday)
	recordTargets(history, 0)
	assert.Empty(t, due(store, day), "no target")
	recordTargets(history, 5)
	assert.Len(t, due(store, day), 1)
	history.Checkpoint(monday)
	recordTargets(history, 5, 5)
	assert.Empty(t, due(store, day), "same target")
}

// The times of targets within one second do not show their order.
func TestLastTargetOfOneSecondIsValid(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	history := NewStore().History(scaler, monday)
	for amount := int64(20); amount > 0; amount-- {
		history.RecordTarget("app", corev1.ResourceCPU, amount, monday)
	}
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, history, monday), monday))
	restored := store.History(scaler, monday)
	for _, h := range []*WorkloadHistory{history, restored} {
		least, most, ok := h.TargetRange("app", corev1.ResourceCPU, 0, monday)
		assert.True(t, ok)
		assert.Equal(t, []int64{1, 1}, []int64{least, most})
	}
}
