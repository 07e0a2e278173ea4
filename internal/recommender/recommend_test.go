package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The expected values below follow from these buckets, computed by hand. In units of 1 milli-CPU or
// 1 MB, bucket n starts at 200 * (1.05^n - 1):
//
//	usage           bucket  upper edge  upper edge * 1.15
//	120m                 9    125.779m   144.646m
//	500m                25    511.135m   587.805m
//	300Mi = 314.57MB    19    330.660MB  380.258MB = 362.643Mi
//	600Mi = 629.15MB    29    664.388MB  764.046MB = 728.651Mi

// addSeries adds a series of samples to a history.
type addSeries func(t *testing.T, h *History)

// steady adds the same usage once per minute, from minute 0 to the last minute.
func steady(last int, cores float64, bytes int64) addSeries {
	return func(t *testing.T, h *History) {
		t.Helper()
		for minute := range last + 1 {
			at := monday.Add(time.Duration(minute) * time.Minute)
			addCPU(t, h, at, cores)
			addMemory(t, h, at, bytes)
		}
	}
}

// cpuAt adds a number of CPU samples with the same time.
func cpuAt(at time.Duration, count int, cores float64) addSeries {
	return func(t *testing.T, h *History) {
		t.Helper()
		for range count {
			addCPU(t, h, monday.Add(at), cores)
		}
	}
}

// memoryAt adds one memory sample.
func memoryAt(at time.Duration, bytes int64) addSeries {
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

func TestRecommendationMatchesPublishedFormulas(t *testing.T) {
	for name, c := range map[string]struct {
		samples     []addSeries
		cpu, memory Estimate // Milli-CPU and Mi.
	}{
		"no samples": {},
		// Confidence 0: the lower bound is 0. The upper bound is infinite, so it is capped at 1000
		// cores and 1e12 B = 953674.3 Mi.
		"one sample": {
			samples: []addSeries{steady(0, 0.12, 300*mebi)},
			cpu:     uncapped(0, 145, 1000000),
			memory:  uncapped(0, 363, 953675),
		},
		// Confidence: min(1/1440, 2/1440) = 1/1440. Lower factor: (1 + 1.44)^-2 = 0.167966, so
		// 24.296m and 60.912 Mi. Upper factor: 1441, so 208434.6m and 522568.3 Mi (510 Gi). The VPA
		// rounds down before it multiplies, so it gets 143m and 206 cores.
		"two samples a minute apart": {
			samples: []addSeries{steady(1, 0.12, 300*mebi)},
			cpu:     uncapped(25, 145, 208435),
			memory:  uncapped(61, 363, 522569),
		},
		// Confidence: min(7, 10081/1440) = 7. Lower factor: (1 + 0.001/7)^-2 = 0.999714, so
		// 144.604m and 362.539 Mi. Upper factor: 8/7, so 165.309m and 414.449 Mi.
		"steady for a week": {
			samples: []addSeries{steady(7*1440, 0.12, 300*mebi)},
			cpu:     uncapped(145, 145, 166),
			memory:  uncapped(363, 363, 415),
		},
		// The span is 1 day, but there are 2 samples: confidence 2/1440 = 1/720. Weights are 1/2 and
		// 1, so the median (0.75 of 1.5) and all higher percentiles are in the newer bucket. Lower
		// factor: (1 + 0.72)^-2 = 0.338021, so 198.69m. Upper factor: 721, so 423807.4m.
		"rises after a day": {
			samples: []addSeries{cpuAt(0, 1, 0.12), cpuAt(day, 1, 0.5)},
			cpu:     uncapped(199, 588, 423808),
		},
		// The reverse: the newer bucket has 1 of 1.5, so it contains the median, but not 0.9 and
		// 0.95. Lower: 0.338021 * 144.646m = 48.89m.
		"falls after a day": {
			samples: []addSeries{cpuAt(0, 1, 0.5), cpuAt(day, 1, 0.12)},
			cpu:     uncapped(49, 588, 423808),
		},
		// 9 of 10 are low, which is exactly 0.9. So the target is low and the upper bound is not. The
		// span is 0, so the confidence is 0.
		"nine low, one high": {
			samples: []addSeries{cpuAt(0, 9, 0.12), cpuAt(0, 1, 0.5)},
			cpu:     uncapped(0, 145, 1000000),
		},
		"eight low, two high": {
			samples: []addSeries{cpuAt(0, 8, 0.12), cpuAt(0, 2, 0.5)},
			cpu:     uncapped(0, 588, 1000000),
		},
		// The first peak is up to 27 hours older than the second, so it is in the window before. Peaks
		// of 600, 300 and 300 Mi in three windows have weights 1/4, 1/2 and 1 of 1.75. 300 Mi has a
		// share of 0.857, so the target is high. Without CPU samples, the confidence is 0.
		"memory lower for two days": {
			samples: []addSeries{memoryAt(0, 600*mebi), memoryAt(27*time.Hour, 300*mebi), memoryAt(54*time.Hour, 300*mebi)},
			memory:  uncapped(0, 729, 953675),
		},
		// One more day: 600 Mi has 1/8 of 1.875, so 300 Mi has 0.933 and the target is low.
		"memory lower for three days": {
			samples: []addSeries{
				memoryAt(0, 600*mebi), memoryAt(27*time.Hour, 300*mebi), memoryAt(54*time.Hour, 300*mebi), memoryAt(81*time.Hour, 300*mebi),
			},
			memory: uncapped(0, 363, 953675),
		},
		// Zero usage is in the first bucket: 10m * 1.15 = 11.5m, 10 MB * 1.15 = 10.97 Mi.
		"idle for one sample": {
			samples: []addSeries{steady(0, 0, 0)},
			cpu:     uncapped(0, 12, 1000000),
			memory:  uncapped(0, 11, 953675),
		},
		// The last bucket starts at 1021 cores and 1.02 TB. Everything is capped at 1000 cores and 1 TB.
		"beyond the last bucket": {
			samples: []addSeries{steady(0, 5000, 1e15)},
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

func TestSamplesAndSpanCountOnlyCPUSamples(t *testing.T) {
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

func TestShorterHalfLifeDropsOldUsageSooner(t *testing.T) {
	for halfLife, want := range map[time.Duration]int64{
		day:     588, // Weights 1 : 2, so the low one has 2/3 = 0.667.
		day / 3: 588, // Weights 1 : 2^3, so it has 8/9 = 0.889.
		day / 4: 145, // Weights 1 : 2^4, so it has 16/17 = 0.941.
	} {
		h := New(halfLife)
		cpuAt(0, 1, 0.5)(t, h)
		cpuAt(day, 1, 0.12)(t, h)
		assert.Equal(t, want, h.Recommend(noLimits()).CPU.Target, "half-life %v", halfLife)
	}
}

// Without limits, the target is 145m, the lower bound is 25m, and the upper bound is 208435m.
func TestLimitsApplyInOrderAndCappedByNamesTheLast(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(1, 0.12, 300*mebi)(t, h)
	estimate := func(lower, target, upper int64, by Cap) Estimate {
		return Estimate{LowerBound: lower, Target: target, UpperBound: upper, UncappedTarget: 145, CappedBy: by}
	}
	for name, c := range map[string]struct {
		limits Limits
		want   Estimate
	}{
		"no limits":                           {Limits{}, estimate(25, 145, 208435, "")},
		"no limit reached":                    {Limits{1, Range{1, 1e6}, Range{1, 1e6}, 1e6}, estimate(25, 145, 208435, "")},
		"pod minimum raises target":           {Limits{PodMinimum: 200}, estimate(200, 200, 208435, CapPodMinimum)},
		"pod minimum raises lower bound only": {Limits{PodMinimum: 50}, estimate(50, 145, 208435, "")},
		"minAllowed raises target":            {Limits{PodMinimum: 200, Allowed: Range{Min: 300}}, estimate(300, 300, 208435, CapMinAllowed)},
		"minAllowed is below pod minimum":     {Limits{PodMinimum: 200, Allowed: Range{Min: 150}}, estimate(200, 200, 208435, CapPodMinimum)},
		"maxAllowed lowers target":            {Limits{Allowed: Range{Max: 100}}, estimate(25, 100, 100, CapMaxAllowed)},
		"maxAllowed overrides pod minimum":    {Limits{PodMinimum: 200, Allowed: Range{Max: 100}}, estimate(100, 100, 100, CapMaxAllowed)},
		"limit range overrides maxAllowed":    {Limits{Allowed: Range{Max: 100}, LimitRange: Range{Min: 120}}, estimate(120, 120, 120, CapLimitRange)},
		"limit range overrides minAllowed":    {Limits{Allowed: Range{Min: 500}, LimitRange: Range{Max: 400}}, estimate(400, 400, 400, CapLimitRange)},
		"node size lowers upper bound":        {Limits{NodeSize: 4000}, estimate(25, 145, 4000, "")},
		"node size overrides all":             {Limits{200, Range{Min: 300}, Range{Min: 400}, 99}, estimate(99, 99, 99, CapNodeSize)},
		"node size restores target":           {Limits{PodMinimum: 200, NodeSize: 145}, estimate(145, 145, 145, "")},
	} {
		t.Run(name, func(t *testing.T) {
			p := noLimits()
			p.CPU = c.limits
			got := h.Recommend(p)
			assert.Equal(t, c.want, got.CPU)
			assert.Equal(t, inBytes(uncapped(61, 363, 522569)), got.Memory, "the other resource has its own limits")
		})
	}
}

func TestTargetRespectsMaximumThatIsNotWholeMi(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(0, 0.12, 300*mebi)(t, h)
	p := noLimits()
	p.Memory.NodeSize = 300*mebi + 1
	assert.Equal(t, int64(300*mebi+1), h.Recommend(p).Memory.Target)
}

func TestPodMinimumIsDividedAmongContainersAndRoundedUp(t *testing.T) {
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

func TestRecommendIsRepeatableAndChangesNothing(t *testing.T) {
	h := New(DefaultHalfLife)
	steady(100, 0.12, 300*mebi)(t, h)
	before := *h
	first := h.Recommend(DefaultPolicy(2))
	second := h.Recommend(DefaultPolicy(2))
	assert.Equal(t, first, second)
	assert.Equal(t, before, *h)
}
