package recommender

import (
	"cmp"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is the use of CPU and memory at one second.
type sample struct {
	second int64
	milli  float64
	bytes  int64
}

// usage holds the samples of a container over up to four weeks.
type usage []sample

// Generate returns random usage that resembles real usage: mostly steady, with some outliers, and
// with several samples at the same time.
func (usage) Generate(r *rand.Rand, size int) reflect.Value {
	u := make(usage, 1+r.Intn(4*size))
	milli, bytes := math.Exp(r.Float64()*11), math.Exp(r.Float64()*10)*1e6
	span := 1 + r.Int63n(windowCount*windowLength)
	for i := range u {
		off := math.Exp(r.NormFloat64() / 4)
		if r.Intn(10) == 0 {
			off = math.Exp(r.NormFloat64() * 2)
		}
		second := r.Int63n(span)
		if r.Intn(2) == 0 {
			second -= second % 3600
		}
		u[i] = sample{monday.Unix() + second, milli * off, int64(bytes * off)}
	}
	return reflect.ValueOf(u)
}

// addTo adds all samples in order.
func (u usage) addTo(h *History) *History {
	for _, s := range u {
		at := time.Unix(s.second, 0)
		if err := h.AddCPU(at, s.milli/1000); err != nil {
			panic(err)
		}
		if err := h.AddMemory(at, s.bytes); err != nil {
			panic(err)
		}
	}
	return h
}

func (u usage) recommend() Recommendation {
	return u.addTo(New(DefaultHalfLife)).Recommend(noLimits())
}

// check tests a property on many inputs. The inputs are the same in every run.
func check(t *testing.T, property any) {
	t.Helper()
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 400, Rand: rand.New(rand.NewSource(1))}))
}

// byFormula computes an estimate directly from the published formulas: times count from a fixed
// reference, all samples are kept and sorted, and a logarithm gives the bucket.
func byFormula(u usage, s scale, amount, weight func(sample) float64, confidence float64) Estimate {
	u = slices.Clone(u)
	slices.SortFunc(u, func(a, b sample) int { return cmp.Compare(amount(a), amount(b)) })
	var total float64
	for _, sample := range u {
		total += weight(sample)
	}
	percentile := func(share float64) float64 {
		var sum float64
		i := -1
		for sum < (share-s.slack)*total {
			i++
			sum += weight(u[i])
		}
		bucket := math.Floor(math.Log(amount(u[i])/s.first*0.05+1) / math.Log(1.05))
		return s.first * (math.Pow(1.05, min(bucket+1, 175)) - 1) / 0.05 * 1.15
	}
	e := Estimate{
		Target:     s.roundUp(percentile(0.9)),
		LowerBound: s.roundUp(percentile(0.5) * math.Pow(1+0.001/confidence, -2)),
		UpperBound: s.roundUp(percentile(0.95) * (1 + 1/confidence)),
	}
	e.UncappedTarget = e.Target
	return e
}

// peaksByFormula returns the highest memory sample of each 24 hours. They are counted back from the
// end of the eighth of a day before the one of the newest sample.
func peaksByFormula(u usage) usage {
	const slot = 3 * 3600
	newest := lastSecond(u) / slot
	highest := map[int64]sample{}
	for _, s := range u {
		window := int64(0)
		if age := newest - s.second/slot; age > 0 {
			window = (age - 1) / 8
		}
		if s.bytes >= highest[window].bytes {
			highest[window] = sample{second: monday.Unix() - window*86400, bytes: s.bytes}
		}
	}
	return slices.Collect(maps.Values(highest))
}

func firstSecond(u usage) int64 {
	return slices.MinFunc(u, func(a, b sample) int { return int(a.second - b.second) }).second
}

func lastSecond(u usage) int64 {
	return slices.MaxFunc(u, func(a, b sample) int { return int(a.second - b.second) }).second
}

// gapless returns the samples, and between them samples of the first one's usage, so that there is
// never a day without samples.
func (u usage) gapless() usage {
	filled := slices.Clone(u)
	for second := firstSecond(u); second < lastSecond(u); second += 86400 {
		filled = append(filled, sample{second, u[0].milli, u[0].bytes})
	}
	return filled
}

func TestPropertyRecommendationMatchesFormulasAtAnyReferenceTime(t *testing.T) {
	check(t, func(u usage) bool {
		u = u.gapless()
		confidence := min(float64(lastSecond(u)-firstSecond(u))/86400, float64(len(u))/1440)
		decayed := func(s sample) float64 { return math.Exp2(float64(s.second-monday.Unix()) / 86400) }
		milli := func(s sample) float64 { return s.milli }
		bytes := func(s sample) float64 { return float64(s.bytes) }

		got := u.recommend()
		return assert.Equal(t, byFormula(u, cpuScale, milli, decayed, confidence), got.CPU) &&
			assert.Equal(t, byFormula(peaksByFormula(u), memoryScale, bytes, decayed, confidence), got.Memory)
	})
}

func TestPropertyOrderOfSamplesDoesNotMatter(t *testing.T) {
	check(t, func(u usage, seed int64) bool {
		want := u.recommend()
		rand.New(rand.NewSource(seed)).Shuffle(len(u), func(i, j int) { u[i], u[j] = u[j], u[i] })
		return assert.Equal(t, want, u.recommend())
	})
}

func TestPropertyShiftOfAllSamplesByDaysDoesNotMatter(t *testing.T) {
	check(t, func(u usage, days uint16) bool {
		later := slices.Clone(u)
		for i := range later {
			later[i].second += int64(days) * windowLength
		}
		for _, halfLife := range []time.Duration{day, 5 * time.Hour, 9*day + time.Second} {
			want := u.addTo(New(halfLife)).Recommend(noLimits())
			if !assert.Equal(t, want, later.addTo(New(halfLife)).Recommend(noLimits())) {
				return false
			}
		}
		return true
	})
}

func TestPropertyHigherUsageNeverLowersAnEstimate(t *testing.T) {
	check(t, func(u usage, which uint16, factor float64) bool {
		before := u.recommend()
		s := &u[int(which)%len(u)]
		grown := 1 + math.Mod(math.Abs(factor), 10)
		s.milli, s.bytes = s.milli*grown, int64(float64(s.bytes)*grown)
		after := u.recommend()
		return notLower(before.CPU, after.CPU) && notLower(before.Memory, after.Memory)
	})
}

func notLower(before, after Estimate) bool {
	return after.Target >= before.Target && after.LowerBound >= before.LowerBound && after.UpperBound >= before.UpperBound
}

func TestPropertyOOMKillNeverLowersMemoryAndKeepsCPU(t *testing.T) {
	check(t, func(u usage, second uint32, request uint32) bool {
		h := u.addTo(New(DefaultHalfLife))
		before := h.Recommend(noLimits())
		at := time.Unix(u[int(second)%len(u)].second, 0) // This window has a peak.
		require.NoError(t, h.AddOOMKill(at, int64(request)*1024))
		after := h.Recommend(noLimits())
		return notLower(before.Memory, after.Memory) && before.CPU == after.CPU
	})
}

func TestPropertyNewestOOMKillRaisesTargetAboveRequest(t *testing.T) {
	check(t, func(u usage, request uint32) bool {
		h := u.addTo(New(DefaultHalfLife))
		require.NoError(t, h.AddOOMKill(h.LastSample(), int64(request)*64))
		return h.Recommend(noLimits()).Memory.Target > int64(request)*64
	})
}

// A lowered memory request stays above the latest usage by this margin, so a limit that is lowered
// with the request is not below the memory in use.
func TestPropertyMemoryTargetExceedsNewestPeakByMargin(t *testing.T) {
	check(t, func(u usage) bool {
		h := u.addTo(New(DefaultHalfLife))
		peak := int64(0)
		for _, s := range u {
			if lastSecond(u)-s.second <= 86400 {
				peak = max(peak, s.bytes)
			}
		}
		return float64(h.Recommend(noLimits()).Memory.Target) >= (1+defaultMargin)*float64(peak)
	})
}

func TestPropertyTwiceTheUsageDoublesTargetsWithinOneBucket(t *testing.T) {
	check(t, func(u usage) bool {
		double := slices.Clone(u)
		for i := range u { // From 2 cores and 2 GB on, buckets are 5 % wide.
			u[i].milli, u[i].bytes = 2000+math.Mod(u[i].milli, 1e5), 2e9+u[i].bytes%1e11
			double[i].milli, double[i].bytes = 2*u[i].milli, 2*u[i].bytes
		}
		once, twice := u.recommend(), double.recommend()
		within := func(a, b int64) bool { return float64(b) > 2/1.06*float64(a) && float64(b) < 2*1.06*float64(a) }
		return within(once.CPU.Target, twice.CPU.Target) && within(once.Memory.Target, twice.Memory.Target)
	})
}

func TestPropertyBoundsEncloseTargetWithAnyLimits(t *testing.T) {
	check(t, func(u usage, limits [6]uint16) bool {
		p := noLimits()
		l := Limits{int64(limits[0]), Range{int64(limits[1]), int64(limits[2])}, Range{int64(limits[3]), int64(limits[4])}, int64(limits[5])}
		p.CPU, p.Memory = l, l
		got := u.addTo(New(DefaultHalfLife)).Recommend(p)
		for _, e := range []Estimate{got.CPU, got.Memory} {
			if e.LowerBound > e.Target || e.Target > e.UpperBound || (l.NodeSize > 0 && e.UpperBound > l.NodeSize) {
				return false
			}
			if (e.CappedBy == "") != (e.Target == e.UncappedTarget) {
				return false
			}
		}
		return true
	})
}

func TestPropertyMergeEqualsAllSamplesInOneHistory(t *testing.T) {
	check(t, func(a, b usage, days uint8) bool {
		for i := range b {
			b[i].second += int64(days%60) * windowLength
		}
		want := append(slices.Clone(a), b...).recommend()
		ab, ba := a.addTo(New(DefaultHalfLife)), b.addTo(New(DefaultHalfLife))
		other := *ba
		ba.Merge(ab)
		ab.Merge(&other)
		return assert.Equal(t, want, ab.Recommend(noLimits())) && assert.Equal(t, want, ba.Recommend(noLimits())) &&
			assert.Equal(t, b.addTo(New(DefaultHalfLife)), &other, "Merge does not change the other history")
	})
}

func TestPropertySetHalfLifeKeepsCPUEstimate(t *testing.T) {
	check(t, func(u usage, hours uint8) bool {
		h := u.gapless().addTo(New(DefaultHalfLife))
		want := h.Recommend(noLimits()).CPU
		h.SetHalfLife(time.Duration(1+hours) * time.Hour)
		return assert.Equal(t, want, h.Recommend(noLimits()).CPU)
	})
}

func TestPropertyRestoredHistoryContinuesLikeTheOriginal(t *testing.T) {
	check(t, func(before, after usage) bool {
		original := before.addTo(New(DefaultHalfLife))
		require.NoError(t, original.AddOOMKill(original.LastSample(), 300*mebi))
		checkpoint := original.Checkpoint()
		restored, err := Restore(checkpoint)
		require.NoError(t, err)
		same := assert.Equal(t, original.Recommend(noLimits()), restored.Recommend(noLimits())) &&
			assert.Equal(t, checkpoint, restored.Checkpoint())
		after.addTo(original)
		after.addTo(restored)
		return same && assert.Equal(t, original.Recommend(noLimits()), restored.Recommend(noLimits()))
	})
}
