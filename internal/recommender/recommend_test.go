package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The figures below follow from these buckets, in units of 1 milli-CPU or 1 MB, with starts
// at 200 * (1.05^n - 1), worked by hand:
//
//	usage           bucket  its upper edge  times 1.15
//	120m                 9        125.779m     144.646m
//	500m                25        511.135m     587.805m
//	300Mi = 314.57MB    19        330.660MB    380.258MB = 362.643Mi
//	600Mi = 629.15MB    29        664.388MB    764.046MB = 728.651Mi

// series adds samples to a history.
type series func(t *testing.T, h *History)

// steady adds the same usage once a minute, up to and including the last minute.
func steady(last int, cores float64, bytes int64) series {
	return func(t *testing.T, h *History) {
		t.Helper()
		for minute := range last + 1 {
			at := monday.Add(time.Duration(minute) * time.Minute)
			addCPU(t, h, at, cores)
			addMemory(t, h, at, bytes)
		}
	}
}

// cpuAt adds a number of samples of CPU usage at one time.
func cpuAt(at time.Duration, count int, cores float64) series {
	return func(t *testing.T, h *History) {
		t.Helper()
		for range count {
			addCPU(t, h, monday.Add(at), cores)
		}
	}
}

// memoryAt adds a sample of memory usage.
func memoryAt(at time.Duration, bytes int64) series {
	return func(t *testing.T, h *History) {
		t.Helper()
		addMemory(t, h, monday.Add(at), bytes)
	}
}

// noLimits is the default policy without the pod minimum.
func noLimits() Policy {
	p := DefaultPolicy(1)
	p.CPU, p.Memory = Limits{}, Limits{}
	return p
}

func uncapped(lower, target, upper int64) Estimate {
	return Estimate{LowerBound: lower, Target: target, UpperBound: upper, UncappedTarget: target}
}

func TestRecommendationIsWhatThePublishedFormulasGive(t *testing.T) {
	for name, c := range map[string]struct {
		samples     []series
		cpu, memory Estimate // Milli-CPU and Mi.
	}{
		"nothing": {},
		// Confidence 0: the lower bound is 0, the upper without end, cut off at 1000 cores and
		// 1e12 B = 953674.3 Mi.
		"one sample": {
			samples: []series{steady(0, 0.12, 300*mebi)},
			cpu:     uncapped(0, 145, 1000000),
			memory:  uncapped(0, 363, 953675),
		},
		// Confidence min(1/1440 day, 2/1440 day) = 1/1440. Lower: (1 + 1.44)^-2 = 0.167966, times
		// 144.646 = 24.296m, times 362.643 = 60.912 Mi. Upper: 1441, times 144.646 = 208434.6m
		// (the VPA rounds down before it multiplies: 143m, 206 cores), times 362.643 = 522568.3 Mi
		// (510 Gi).
		"two samples a minute apart": {
			samples: []series{steady(1, 0.12, 300*mebi)},
			cpu:     uncapped(25, 145, 208435),
			memory:  uncapped(61, 363, 522569),
		},
		// Confidence min(7 days, 10081/1440) = 7. Lower: (1 + 0.001/7)^-2 = 0.999714, times
		// 144.646 = 144.604m, times 362.643 = 362.539 Mi. Upper: 8/7, times 144.646 =
		// 165.309m, times 362.643 = 414.449 Mi.
		"a week, steady": {
			samples: []series{steady(7*1440, 0.12, 300*mebi)},
			cpu:     uncapped(145, 145, 166),
			memory:  uncapped(363, 363, 415),
		},
		// A span of 1 day but 2 samples: confidence 2/1440 = 1/720. Weights 1/2 and 1: the
		// median (0.75 of 1.5) and what is above are in the newer bucket. Lower: (1 + 0.72)^-2 =
		// 0.338021, times 587.805 = 198.69m. Upper: 721, times 587.805 = 423807.4m.
		"a day apart, going up": {
			samples: []series{cpuAt(0, 1, 0.12), cpuAt(day, 1, 0.5)},
			cpu:     uncapped(199, 588, 423808),
		},
		// The same, going down: the newer bucket has 1 of 1.5, so the median is there; 0.9 and
		// 0.95 are not. Lower: 0.338021 * 144.646 = 48.89m.
		"a day apart, going down": {
			samples: []series{cpuAt(0, 1, 0.5), cpuAt(day, 1, 0.12)},
			cpu:     uncapped(49, 588, 423808),
		},
		// 9 of 10 are low: exactly 0.9, so the target is low, and the upper bound is not. Span 0:
		// confidence 0.
		"nine low, one high": {
			samples: []series{cpuAt(0, 9, 0.12), cpuAt(0, 1, 0.5)},
			cpu:     uncapped(0, 145, 1000000),
		},
		"eight low, two high": {
			samples: []series{cpuAt(0, 8, 0.12), cpuAt(0, 2, 0.5)},
			cpu:     uncapped(0, 588, 1000000),
		},
		// Peaks of 600, 300 and 300 Mi on three days weigh 1/4, 1/2 and 1 of 1.75: 300 Mi has
		// 0.857, so the target is high. Confidence: 0, without CPU samples.
		"memory going down for two days": {
			samples: []series{memoryAt(0, 600*mebi), memoryAt(day, 300*mebi), memoryAt(2*day, 300*mebi)},
			memory:  uncapped(0, 729, 953675),
		},
		// One day more: 1/8 of 1.875, so 300 Mi has 0.933 and the target is low.
		"memory going down for three days": {
			samples: []series{memoryAt(0, 600*mebi), memoryAt(day, 300*mebi), memoryAt(2*day, 300*mebi), memoryAt(3*day, 300*mebi)},
			memory:  uncapped(0, 363, 953675),
		},
		// Usage of nothing is in the first bucket: 10m * 1.15 = 11.5m, 10 MB * 1.15 = 10.97 Mi.
		"idle for one sample": {
			samples: []series{steady(0, 0, 0)},
			cpu:     uncapped(0, 12, 1000000),
			memory:  uncapped(0, 11, 953675),
		},
		// The last bucket begins at 1021 cores and 1.02 TB; all is cut off at 1000 cores, 1 TB.
		"more than any machine has": {
			samples: []series{steady(0, 5000, 1e15)},
			cpu:     uncapped(0, 1000000, 1000000),
			memory:  uncapped(0, 953675, 953675),
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(DefaultHalfLife)
			for _, add := range c.samples {
				add(t, h)
			}
			got := h.Recommend(noLimits())
			assert.Equal(t, c.cpu, got.CPU)
			assert.Equal(t, inBytes(c.memory), got.Memory)
		})
	}
}

func inBytes(e Estimate) Estimate {
	e.Target *= mebi
	e.LowerBound *= mebi
	e.UpperBound *= mebi
	e.UncappedTarget *= mebi
	return e
}

func TestSamplesAndSpanAreThoseOfCPU(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(90, 0.12, 300*mebi)(t, h)
	memoryAt(3*day, 300*mebi)(t, h)
	got := h.Recommend(noLimits())
	assert.Equal(t, int64(91), got.Samples)
	assert.Equal(t, 90*time.Minute, got.Span)
}

func TestPercentilesAndMarginCanBeSet(t *testing.T) {
	h := New(DefaultHalfLife)
	cpuAt(0, 9, 0.12)(t, h)
	cpuAt(0, 1, 0.5)(t, h)
	p := noLimits()
	p.TargetPercentile = 0.91
	p.Margin = 0.5
	assert.Equal(t, int64(767), h.Recommend(p).CPU.Target, "511.135m * 1.5 = 766.7m")
	p.Margin = 0
	assert.Equal(t, int64(512), h.Recommend(p).CPU.Target)
}

func TestAShorterHalfLifeForgetsSooner(t *testing.T) {
	for halfLife, want := range map[time.Duration]int64{
		day:     588, // Weights 1 : 2, of which 2/3 = 0.667 are low.
		day / 3: 588, // 1 : 2^3, 8/9 = 0.889.
		day / 4: 145, // 1 : 2^4, 16/17 = 0.941.
	} {
		h := New(halfLife)
		cpuAt(0, 1, 0.5)(t, h)
		cpuAt(day, 1, 0.12)(t, h)
		assert.Equal(t, want, h.Recommend(noLimits()).CPU.Target, "half-life %v", halfLife)
	}
}

// Usage alone makes a target of 145m, a lower bound of 25m and an upper bound of 208435m.
func TestLimitsApplyInTheirOrderAndTheTargetSaysWhich(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(1, 0.12, 300*mebi)(t, h)
	estimate := func(lower, target, upper int64, by Cap) Estimate {
		return Estimate{LowerBound: lower, Target: target, UpperBound: upper, UncappedTarget: 145, CappedBy: by}
	}
	for name, c := range map[string]struct {
		limits Limits
		want   Estimate
	}{
		"none":                              {Limits{}, estimate(25, 145, 208435, "")},
		"all wide":                          {Limits{1, Range{1, 1e6}, Range{1, 1e6}, 1e6}, estimate(25, 145, 208435, "")},
		"pod minimum raises":                {Limits{PodMinimum: 200}, estimate(200, 200, 208435, CapPodMinimum)},
		"pod minimum raises the lower only": {Limits{PodMinimum: 50}, estimate(50, 145, 208435, "")},
		"least allowed raises":              {Limits{PodMinimum: 200, Allowed: Range{Min: 300}}, estimate(300, 300, 208435, CapMinAllowed)},
		"least allowed below pod minimum":   {Limits{PodMinimum: 200, Allowed: Range{Min: 150}}, estimate(200, 200, 208435, CapPodMinimum)},
		"greatest allowed lowers":           {Limits{Allowed: Range{Max: 100}}, estimate(25, 100, 100, CapMaxAllowed)},
		"greatest allowed overrules":        {Limits{PodMinimum: 200, Allowed: Range{Max: 100}}, estimate(100, 100, 100, CapMaxAllowed)},
		"limit range raises":                {Limits{Allowed: Range{Max: 100}, LimitRange: Range{Min: 120}}, estimate(120, 120, 120, CapLimitRange)},
		"limit range lowers":                {Limits{Allowed: Range{Min: 500}, LimitRange: Range{Max: 400}}, estimate(400, 400, 400, CapLimitRange)},
		"node lowers the upper bound":       {Limits{NodeSize: 4000}, estimate(25, 145, 4000, "")},
		"node overrules all":                {Limits{200, Range{Min: 300}, Range{Min: 400}, 99}, estimate(99, 99, 99, CapNodeSize)},
		"raised and lowered back":           {Limits{PodMinimum: 200, NodeSize: 145}, estimate(145, 145, 145, "")},
	} {
		t.Run(name, func(t *testing.T) {
			p := noLimits()
			p.CPU = c.limits
			got := h.Recommend(p)
			assert.Equal(t, c.want, got.CPU)
			assert.Equal(t, inBytes(uncapped(61, 363, 522569)), got.Memory, "the other resource has limits of its own")
		})
	}
}

func TestAMaximumThatIsNoWholeNumberOfMiIsKeptTo(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(0, 0.12, 300*mebi)(t, h)
	p := noLimits()
	p.Memory.NodeSize = 300*mebi + 1
	assert.Equal(t, int64(300*mebi+1), h.Recommend(p).Memory.Target)
}

func TestPodMinimumIsSharedAmongContainersAndRoundedUp(t *testing.T) {
	for containers, want := range map[int]struct{ milli, mebis int64 }{
		0: {25, 250}, 1: {25, 250}, 2: {13, 125}, 3: {9, 84}, 4: {7, 63}, 25: {1, 10}, 100: {1, 3},
	} {
		p := DefaultPolicy(containers)
		assert.Equal(t, want.milli, p.CPU.PodMinimum, "%d containers", containers)
		assert.Equal(t, want.mebis*mebi, p.Memory.PodMinimum, "%d containers", containers)
	}
	assert.Zero(t, ShareCPU(0, 3))
	assert.Zero(t, ShareMemory(0, 3))
}

func TestRecommendingTwiceGivesTheSameAndChangesNothing(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(100, 0.12, 300*mebi)(t, h)
	before := *h
	first := h.Recommend(DefaultPolicy(2))
	second := h.Recommend(DefaultPolicy(2))
	assert.Equal(t, first, second)
	assert.Equal(t, before, *h)
}
