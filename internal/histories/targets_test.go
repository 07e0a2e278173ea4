package histories

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

// tell takes note of targets of container app's memory, one an hour from monday on.
func tell(record *Record, amounts ...int64) {
	for hour, amount := range amounts {
		record.Tell("app", corev1.ResourceMemory, amount, monday.Add(time.Duration(hour)*time.Hour))
	}
}

func TestSteadyIsTheLeastAndTheGreatestTargetOfTheWindow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		told        []int64
		at, window  time.Duration
		least, most int64
		ok          bool
	}{
		"none":                 {nil, 0, 0, 0, 0, false},
		"one, just now":        {[]int64{5}, 0, 0, 5, 5, true},
		"one, for not as long": {[]int64{5}, time.Hour - time.Second, time.Hour, 5, 5, false},
		"one, for as long":     {[]int64{5}, time.Hour, time.Hour, 5, 5, true},
		"the one that held when the window began": {[]int64{5, 7}, 90 * time.Minute, time.Hour, 5, 7, true},
		"only what held in the window":            {[]int64{5, 7}, 2 * time.Hour, time.Hour, 7, 7, true},
		"up and down":                             {[]int64{5, 9, 2, 6}, 3 * time.Hour, 3 * time.Hour, 2, 9, true},
		"the same again":                          {[]int64{5, 5, 5}, 2 * time.Hour, 2 * time.Hour, 5, 5, true},
		"to and fro":                              {[]int64{5, 7, 5, 7, 5}, 4 * time.Hour, time.Hour, 5, 7, true},
		"to and fro, now":                         {[]int64{5, 7, 5, 7, 5}, 4 * time.Hour, 0, 5, 5, true},
		"nothing is no target":                    {[]int64{0, 0, 5}, 3 * time.Hour, 2 * time.Hour, 5, 5, false},
		"nothing takes no target away":            {[]int64{5, 0, 0}, 2 * time.Hour, 2 * time.Hour, 5, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := newTestRecord()
			tell(record, test.told...)
			least, most, ok := record.Steady("app", corev1.ResourceMemory, test.window, monday.Add(test.at))
			assert.Equal(t, test.ok, ok)
			assert.Equal(t, []int64{test.least, test.most}, []int64{least, most})
		})
	}
}

func TestTheTargetsOfEachContainerAndResourceAreApart(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	tell(record, 5)
	for of, isKnown := range map[sized]bool{
		{"app", corev1.ResourceMemory}: true, {"app", corev1.ResourceCPU}: false, {"web", corev1.ResourceMemory}: false,
	} {
		_, _, ok := record.Steady(of.container, of.resource, 0, monday)
		assert.Equal(t, isKnown, ok, of)
	}
}

// whole is what is told if nothing is left out.
type whole []told

func (w whole) steady(window time.Duration, now time.Time) (least, most int64, ok bool) {
	for i, target := range w {
		if i+1 < len(w) && w[i+1].at <= now.Add(-window).Unix() {
			continue
		}
		if least == 0 {
			least, most, ok = target.amount, target.amount, target.at <= now.Add(-window).Unix()
		}
		least, most = min(least, target.amount), max(most, target.amount)
	}
	return least, most, ok
}

func TestPropertyWhatIsLeftOutChangesNoWindow(t *testing.T) {
	t.Parallel()
	property := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		record, all, now := newTestRecord(), whole{}, monday
		for range 1 + r.Intn(60) {
			now = now.Add(time.Duration(r.Intn(4*3600)) * time.Second)
			amount := 1 + r.Int63n(12)
			record.Tell("app", corev1.ResourceCPU, amount, now)
			all = append(all, told{now.Unix(), amount})
			window := time.Duration(r.Int63n(int64(maxWindow/time.Second))) * time.Second
			least, most, ok := record.Steady("app", corev1.ResourceCPU, window, now)
			wantLeast, wantMost, want := all.steady(window, now)
			if !assert.Equal(t, want, ok) || ok && !assert.Equal(t, []int64{wantLeast, wantMost}, []int64{least, most}, "%v: %v", window, all) {
				return false
			}
		}
		return true
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 1000, Rand: rand.New(rand.NewSource(1))}))
}

func TestTargetsOlderThanTheLongestWindowAreForgotten(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	for i := range 30 {
		record.Tell("app", corev1.ResourceCPU, int64(100+i), monday.Add(time.Duration(i)*day))
	}
	now := monday.Add(29 * day)
	least, most, ok := record.Steady("app", corev1.ResourceCPU, maxWindow, now)
	assert.True(t, ok, "the longest window is known")
	assert.Equal(t, []int64{122, 129}, []int64{least, most})
	assert.Len(t, record.Checkpoint(now).Targets, 8, "and nothing before")
}

func TestATargetThatGoesToAndFroEachMinuteTakesLittleSpace(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	r := rand.New(rand.NewSource(1))
	for minute := range 7 * 1440 {
		record.Tell("app", corev1.ResourceCPU, 100+r.Int63n(900), monday.Add(time.Duration(minute)*time.Minute))
	}
	data, err := json.Marshal(record.Checkpoint(monday).Targets)
	require.NoError(t, err)
	assert.Less(t, len(data), 4096)
}

func TestTargetsGoWithTheContainersThatAreForgotten(t *testing.T) {
	t.Parallel()
	record := newTestRecord()
	for i := range 3 * maxContainers {
		name, at := fmt.Sprintf("app-%d", i), monday.Add(time.Duration(i)*time.Hour)
		addUsage(t, record, name, at, 0.12)
		record.Tell(name, corev1.ResourceCPU, 100, at)
	}
	assert.Len(t, record.Checkpoint(monday).Targets, maxContainers)
}

func TestRestoredTargetsAreThoseThatWereSaved(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	record := NewStore().Record(scaler, monday)
	for i, container := range []string{"web", "app"} {
		for hour, amount := range []int64{500, 100, 400, 200, 300} {
			for _, resource := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
				record.Tell(container, resource, amount*int64(1+i), monday.Add(time.Duration(hour)*time.Hour))
			}
		}
	}
	now := monday.Add(4 * time.Hour)
	checkpoint := stored(t, record, now)
	require.Len(t, checkpoint.Data.Targets, 20)
	store := NewStore()
	require.NoError(t, store.Restore(checkpoint, now))
	restored := store.Record(scaler, now)
	for _, container := range []string{"web", "app"} {
		for _, resource := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
			for window := range 6 {
				type answer struct {
					least, most int64
					ok          bool
				}
				var want, got answer
				want.least, want.most, want.ok = record.Steady(container, resource, time.Duration(window)*time.Hour, now)
				got.least, got.most, got.ok = restored.Steady(container, resource, time.Duration(window)*time.Hour, now)
				assert.Equal(t, want, got, "%s of %s for %d h", resource, container, window)
			}
		}
	}
	assert.Empty(t, due(store, day), "nothing is to be saved")
	assert.Equal(t, checkpoint.Data, stored(t, restored, now).Data, "and it would be saved as it was")
}

func TestANewTargetIsSavedAndTheSameAgainIsNot(t *testing.T) {
	t.Parallel()
	store := NewStore()
	record := store.Record(newScaler("web", "1"), monday)
	tell(record, 0)
	assert.Empty(t, due(store, day), "none")
	tell(record, 5)
	assert.Len(t, due(store, day), 1)
	record.Checkpoint(monday)
	tell(record, 5, 5)
	assert.Empty(t, due(store, day), "the same")
}

// Within a second, the order in which targets were told is not in their times.
func TestOfTheTargetsOfOneSecondTheLastHolds(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	record := NewStore().Record(scaler, monday)
	for amount := int64(20); amount > 0; amount-- {
		record.Tell("app", corev1.ResourceCPU, amount, monday)
	}
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, record, monday), monday))
	restored := store.Record(scaler, monday)
	for _, r := range []*Record{record, restored} {
		least, most, ok := r.Steady("app", corev1.ResourceCPU, 0, monday)
		assert.True(t, ok)
		assert.Equal(t, []int64{1, 1}, []int64{least, most})
	}
}
