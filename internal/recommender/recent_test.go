package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// nightly adds the usage of days with much memory in use by day, 1000 MB, and little at night, 300
// MB, from minute to minute, and calls check after each sample.
func nightly(t *testing.T, h *History, days int, check func(at time.Time)) {
	t.Helper()
	for minute := range days * 1440 {
		at, bytes := monday.Add(time.Duration(minute)*time.Minute), int64(300e6)
		if hour := minute / 60 % 24; hour >= 8 && hour < 20 {
			bytes = 1000e6
		}
		addCPU(t, h, at, 0.1)
		addMemory(t, h, at, bytes)
		check(at)
	}
}

func TestShortHalfLifeKeepsTheDaysPeakThroughTheNight(t *testing.T) {
	for _, halfLife := range []time.Duration{time.Hour, 7 * time.Hour, day} {
		h := New(halfLife)
		least := int64(memoryScale.limit)
		nightly(t, h, 4, func(at time.Time) {
			if at.Sub(monday) >= 9*time.Hour {
				least = min(least, h.Recommend(noLimits()).Memory.Target)
			}
		})
		assert.Greater(t, least, int64(1.15*1000e6), "half-life %v", halfLife)
	}
}

func TestPeakIsForgottenSomeDaysAfterItEndsAtShortHalfLife(t *testing.T) {
	h := New(time.Hour)
	addMemory(t, h, monday, 1000e6)
	addMemory(t, h, monday.Add(24*time.Hour), 300e6)
	assert.Greater(t, h.Recommend(noLimits()).Memory.Target, int64(1000e6), "within 24 hours")
	addMemory(t, h, monday.Add(27*time.Hour), 300e6)
	assert.Equal(t, int64(335*mebi), h.Recommend(noLimits()).Memory.Target)
}

// A history of two weeks at one sample per minute, and then silence.
func silentAfterTwoWeeks(t *testing.T, halfLife time.Duration) *History {
	t.Helper()
	h := New(halfLife)
	steady(14*1440, 0.5, 600*mebi)(t, h)
	return h
}

func TestOneSampleAfterALongSilenceHasNoConfidence(t *testing.T) {
	for halfLife, silence := range map[time.Duration]time.Duration{
		time.Hour: 2 * day, day: 14 * day, 3 * day: 14 * day, 6 * day: 27 * day,
	} {
		h := silentAfterTwoWeeks(t, halfLife)
		before := h.Recommend(noLimits())
		assert.Equal(t, 14*day, before.Span)
		at := monday.Add(14*day + silence)
		addCPU(t, h, at, 0.12)
		addMemory(t, h, at, 300*mebi)
		got := h.Recommend(noLimits())
		assert.Zero(t, got.Span, "half-life %v", halfLife)
		assert.Zero(t, got.Memory.LowerBound, "half-life %v", halfLife)
		assert.Greater(t, got.Memory.UpperBound, before.Memory.Target, "half-life %v", halfLife)
		assert.Equal(t, monday, h.FirstSample())
	}
}

func TestShortSilenceKeepsConfidence(t *testing.T) {
	for halfLife, silence := range map[time.Duration]time.Duration{
		time.Hour: 20 * time.Hour, day: 3 * day, 6 * day: 20 * day,
	} {
		h := silentAfterTwoWeeks(t, halfLife)
		addCPU(t, h, monday.Add(14*day+silence), 0.12)
		assert.Equal(t, 14*day+silence, h.Recommend(noLimits()).Span, "half-life %v", halfLife)
	}
}

func TestConfidenceGrowsAgainAfterALongSilence(t *testing.T) {
	h := silentAfterTwoWeeks(t, day)
	for minute := range 1440 + 1 {
		addCPU(t, h, monday.Add(28*day+time.Duration(minute)*time.Minute), 0.12)
	}
	assert.InDelta(t, day, h.Recommend(noLimits()).Span, float64(3*time.Hour))
}
