package recommender

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// monday is the start of a window of memory peaks, and of a half-life of 24 h.
var monday = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func addCPU(t *testing.T, h *History, at time.Time, cores float64) {
	t.Helper()
	require.NoError(t, h.AddCPU(at, cores))
}

func addMemory(t *testing.T, h *History, at time.Time, bytes int64) {
	t.Helper()
	require.NoError(t, h.AddMemory(at, bytes))
}

func TestInvalidSampleIsRejectedAndChangesNothing(t *testing.T) {
	h := New(DefaultHalfLife)
	for _, cores := range []float64{-0.001, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.ErrorIs(t, h.AddCPU(monday, cores), ErrInvalidSample, "%v cores", cores)
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		require.ErrorIs(t, h.AddCPU(at, 1), ErrInvalidSample, "%v", at)
		require.ErrorIs(t, h.AddMemory(at, 1), ErrInvalidSample, "%v", at)
		require.ErrorIs(t, h.AddOOMKill(at, 1), ErrInvalidSample, "%v", at)
	}
	require.ErrorIs(t, h.AddMemory(monday, -1), ErrInvalidSample)
	require.ErrorIs(t, h.AddOOMKill(monday, -1), ErrInvalidSample)
	assert.Equal(t, New(DefaultHalfLife), h)
}

func TestLastSampleIsNewestNotLastAdded(t *testing.T) {
	h := New(DefaultHalfLife)
	assert.True(t, h.LastSample().IsZero())
	addCPU(t, h, monday.Add(day), 1)
	addCPU(t, h, monday, 1)
	assert.Equal(t, monday.Add(day), h.LastSample())
	addMemory(t, h, monday.Add(day+time.Hour), 1)
	assert.Equal(t, monday.Add(day), h.LastSample(), "only the slot of a memory sample is stored")
}

func TestLastSampleIsSlotOfOOMKillWithoutUsage(t *testing.T) {
	h := New(DefaultHalfLife)
	require.NoError(t, h.AddOOMKill(monday.Add(day+4*time.Hour), 300*mebi))
	assert.Equal(t, monday.Add(day+3*time.Hour), h.LastSample())
	assert.True(t, h.FirstSample().IsZero(), "there is no CPU sample")
}

func TestFirstSampleIsOldestNotFirstAdded(t *testing.T) {
	h := New(DefaultHalfLife)
	assert.True(t, h.FirstSample().IsZero())
	addCPU(t, h, monday, 1)
	addCPU(t, h, monday.Add(-day), 1)
	addCPU(t, h, monday.Add(day), 1)
	assert.Equal(t, monday.Add(-day), h.FirstSample())
}

func TestHalfLifeBelowOneSecondMeansDefault(t *testing.T) {
	assert.Equal(t, DefaultHalfLife, New(0).HalfLife())
	assert.Equal(t, DefaultHalfLife, New(-time.Hour).HalfLife())
	assert.Equal(t, 90*time.Second, New(90*time.Second).HalfLife())
}

// newestPeak returns the histogram that the newest peak gives.
func newestPeak(h *History) histogram { return h.memory.histogram(1) }

// peakOf returns the histogram of one peak.
func peakOf(bytes float64) (h histogram) {
	h.add(memoryScale.bucket(bytes), 1)
	return h
}

func TestOOMKillRaisesNeedByAFifthOr100Mi(t *testing.T) {
	for name, c := range map[string]struct {
		had  int64
		want float64
	}{
		"small: 300 + 100":                            {300 * mebi, 400 * mebi},
		"neither limit nor request: 0 + 100":          {0, 100 * mebi},
		"500 Mi, both rules are equal: 500 + 100":     {500 * mebi, 600 * mebi},
		"large: 1000 * 1.2":                           {1000 * mebi, 1200 * mebi},
		"beyond all buckets: 1e12 * 1.2, no overflow": {math.MaxInt64, 1.2e12},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(DefaultHalfLife)
			require.NoError(t, h.AddOOMKill(monday.Add(time.Hour), c.had))
			assert.Equal(t, peakOf(c.want), newestPeak(h))
		})
	}
}

// What other pods used, or the same pod with more memory, does not say what this kill shows.
func TestNeedOfOOMKillDoesNotDependOnUsage(t *testing.T) {
	for name, used := range map[string]int64{"lower": 200 * mebi, "higher": 380 * mebi} {
		before, after := New(DefaultHalfLife), New(DefaultHalfLife)
		addMemory(t, before, monday, used)
		require.NoError(t, before.AddOOMKill(monday, 300*mebi))
		require.NoError(t, after.AddOOMKill(monday, 300*mebi))
		addMemory(t, after, monday, used)
		assert.Equal(t, peakOf(400*mebi), newestPeak(before), name)
		assert.Equal(t, before, after, "%s usage, before and after the kill", name)
	}
}

func TestRepeatedOOMKillsAtSameAmountCountOnce(t *testing.T) {
	h := New(DefaultHalfLife)
	addMemory(t, h, monday, 290*mebi)
	for range 10 {
		require.NoError(t, h.AddOOMKill(monday.Add(time.Hour), 300*mebi))
		addMemory(t, h, monday.Add(time.Hour), 390*mebi)
	}
	assert.Equal(t, peakOf(400*mebi), newestPeak(h), "300 + 100, only once")

	require.NoError(t, h.AddOOMKill(monday.Add(time.Hour), 400*mebi))
	assert.Equal(t, peakOf(500*mebi), newestPeak(h), "a kill at a higher amount shows a higher need")
}

func TestOOMKillWithoutMemorySamplesGivesRecommendation(t *testing.T) {
	h := New(DefaultHalfLife)
	require.NoError(t, h.AddOOMKill(monday, 300*mebi))
	// 300 Mi + 100 Mi = 419.4 MB is in bucket 23, from 414.3 MB to 445.0 MB. 445.0 MB * 1.15 =
	// 511.75 MB = 488.04 Mi.
	r := h.Recommend(DefaultPolicy(1))
	assert.Equal(t, int64(489*mebi), r.Memory.Target)
	assert.Zero(t, r.CPU, "there are no CPU samples")
}

func TestOnlyHighestMemorySampleOfWindowCounts(t *testing.T) {
	h := New(DefaultHalfLife)
	addMemory(t, h, monday, 300*mebi)
	addMemory(t, h, monday.Add(day-time.Second), 600*mebi)
	addMemory(t, h, monday.Add(time.Hour), 500*mebi)
	assert.Equal(t, peakOf(600*mebi), h.memory.histogram(windowLength))

	addMemory(t, h, monday.Add(2*day-time.Second), 100*mebi)
	want := peakOf(600 * mebi)
	want.add(memoryScale.bucket(500*mebi), 0.5)
	assert.Equal(t, want, h.memory.histogram(windowLength), "the highest peak is 24 hours old")

	addMemory(t, h, monday.Add(2*day), 100*mebi)
	want = peakOf(100 * mebi)
	want.add(memoryScale.bucket(600*mebi), 0.5)
	assert.Equal(t, want, h.memory.histogram(windowLength), "the next window has its own peak")
}

func TestPeaksOlderThanFourWeeksAreDroppedInAnyOrder(t *testing.T) {
	kept, newest := monday, monday.Add(windowCount*day)
	older, old := monday.Add(-day), monday.Add(-time.Second)
	bytes := map[time.Time]int64{older: 1000 * mebi, old: 800 * mebi, kept: 300 * mebi, newest: 500 * mebi}
	for name, order := range map[string][]time.Time{
		"oldest first": {older, old, kept, newest}, "newest first": {newest, kept, old, older}, "oldest last": {kept, newest, old, older},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(7 * day)
			for _, at := range order {
				addMemory(t, h, at, bytes[at])
			}
			want := peakOf(500 * mebi)
			want[memoryScale.bucket(300*mebi)] = float32(math.Exp2(-27. / 7))
			assert.Equal(t, want, h.memory.histogram(h.halfLife))

			restored, err := Restore(h.Checkpoint())
			require.NoError(t, err)
			assert.Equal(t, want, restored.memory.histogram(h.halfLife))
		})
	}
}

func TestOneOOMKillRaisesTargetUpToHalfLifeOfSixDays(t *testing.T) {
	for _, halfLife := range []time.Duration{time.Hour, day, 6 * day} {
		h := New(halfLife)
		for window := range windowCount {
			addMemory(t, h, monday.Add(time.Duration(window)*day), 300*mebi)
		}
		assert.Equal(t, int64(363*mebi), h.Recommend(noLimits()).Memory.Target)
		require.NoError(t, h.AddOOMKill(monday.Add((windowCount-1)*day), 363*mebi))
		assert.Greater(t, h.Recommend(noLimits()).Memory.Target, int64(463*mebi), "half-life %v", halfLife)
	}
}

// At the default half-life the newest window has weight 1, and all earlier ones together have
// 1 - 2^-27.
func TestNewestWindowOutweighsAllOthersTogether(t *testing.T) {
	h := New(DefaultHalfLife)
	for window := range windowCount - 1 {
		addMemory(t, h, monday.Add(time.Duration(window)*day), 300*mebi)
	}
	addMemory(t, h, monday.Add((windowCount-1)*day), 600*mebi)
	addCPU(t, h, monday, 1)
	addCPU(t, h, monday.Add(day), 1)
	// The median is 664.388 MB * 1.15 = 728.651 Mi; confidence 2/1440, so times 0.338021.
	assert.Equal(t, int64(247*mebi), h.Recommend(noLimits()).Memory.LowerBound)
}

func TestSamplesOlderThan32HalfLivesAreDropped(t *testing.T) {
	dropped, kept := cpuScale.bucket(100), cpuScale.bucket(500)
	for name, order := range map[string][]time.Duration{"oldest first": {0, 2 * day, 34 * day}, "newest first": {34 * day, 2 * day, 0}} {
		h := New(day)
		for _, after := range order {
			addCPU(t, h, monday.Add(after), map[time.Duration]float64{0: 0.1, 2 * day: 0.5, 34 * day: 1}[after])
		}
		assert.Zero(t, h.cpu[dropped], name)
		assert.InDelta(t, math.Exp2(-32), h.cpu[kept], 0, name)
	}
}

func TestSetHalfLifeKeepsWeightsAndChangesFutureDecay(t *testing.T) {
	h := New(day)
	addCPU(t, h, monday, 0.1)          // Half the weight of the next.
	addCPU(t, h, monday.Add(day), 0.5) // The newest has weight 1.
	h.SetHalfLife(2 * day)
	addCPU(t, h, monday.Add(3*day), 1) // Two days later, at the new half-life, all earlier samples lose half.

	low, middle, high := h.cpu[cpuScale.bucket(100)], h.cpu[cpuScale.bucket(500)], h.cpu[cpuScale.bucket(1000)]
	assert.InEpsilon(t, 0.5, middle/high, 1e-6)
	assert.InEpsilon(t, 0.5, low/middle, 1e-6)
	assert.Equal(t, 2*day, h.HalfLife())
}

func TestWeightsStayFiniteAfterYears(t *testing.T) {
	for _, halfLife := range []time.Duration{time.Minute, time.Hour, day, 7 * day, 10000 * day} {
		h := New(halfLife)
		for hour := range 3 * 365 * 24 {
			addCPU(t, h, monday.Add(time.Duration(hour)*time.Hour), 0.12)
			addMemory(t, h, monday.Add(time.Duration(hour)*time.Hour), 300*mebi)
		}
		r := h.Recommend(DefaultPolicy(1))
		assert.Equal(t, int64(145), r.CPU.Target, "half-life %v", halfLife)
		assert.Equal(t, int64(363*mebi), r.Memory.Target, "half-life %v", halfLife)
	}
}

func TestSampleAfterYearsReplacesOlderUsage(t *testing.T) {
	h := New(day)
	addCPU(t, h, monday, 8)
	addMemory(t, h, monday, 8<<30)
	addCPU(t, h, monday.AddDate(5, 0, 0), 0.12)
	addMemory(t, h, monday.AddDate(5, 0, 0), 300*mebi)
	r := h.Recommend(DefaultPolicy(1))
	assert.Equal(t, int64(145), r.CPU.Target)
	assert.Equal(t, int64(363*mebi), r.Memory.Target)
}

func TestMergeKeepsHigherPeak(t *testing.T) {
	for name, swap := range map[string]bool{"higher into lower": false, "lower into higher": true} {
		lower, higher := New(day), New(day)
		addMemory(t, lower, monday, 1000*mebi)
		require.NoError(t, lower.AddOOMKill(monday, 300*mebi))
		addMemory(t, higher, monday, 300*mebi)
		require.NoError(t, higher.AddOOMKill(monday, 1000*mebi))
		if swap {
			lower, higher = higher, lower
		}
		lower.Merge(higher)
		assert.Equal(t, peakOf(1200*mebi), newestPeak(lower), name)
	}
}

func TestMergeWithDifferentHalfLifeKeepsWeights(t *testing.T) {
	h, other := New(day), New(2*day)
	addCPU(t, h, monday.Add(3*day), 1)
	addCPU(t, other, monday, 0.1) // At a half-life of two days it has half the weight of the next.
	addCPU(t, other, monday.Add(2*day), 0.5)
	h.Merge(other)

	low, middle, high := h.cpu[cpuScale.bucket(100)], h.cpu[cpuScale.bucket(500)], h.cpu[cpuScale.bucket(1000)]
	assert.InEpsilon(t, 0.5, low/middle, 1e-6)
	assert.InEpsilon(t, 0.5, middle/high, 1e-6, "one day older, at a half-life of one day")
	assert.Equal(t, 2*day, other.HalfLife(), "Merge does not change the other history")
}

func TestMergeWithEmptyHistoryChangesNothing(t *testing.T) {
	h := New(day)
	addCPU(t, h, monday, 0.12)
	addMemory(t, h, monday, 300*mebi)
	want := *h
	h.Merge(New(time.Hour))
	assert.Equal(t, want, *h)

	empty := New(day)
	empty.Merge(h)
	assert.Equal(t, want, *empty)
}
