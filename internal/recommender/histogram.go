package recommender

import (
	"math"
	"slices"
)

// The shape of the histograms, published in model/aggregations_config.go: the first bucket has
// a width of 0.01 core or 10 MB, each further one is wider by 5 %, and the last begins at or
// beyond 1000 cores or 1e12 B. Both resources have ceil(log(1 + 0.05*1000/0.01) / log(1.05)) + 1
// = 176 buckets (util/histogram_options.go).
const (
	bucketGrowth = 1.05
	bucketCount  = 176
)

// minWeight is the least weight that is kept: a sample 32 half-lives old weighs nothing.
const minWeight = 1.0 / (1 << 32)

// bucketStarts are the starts of the buckets, in widths of the first one. Bucket n starts at
// 1 + 1.05 + ... + 1.05^(n-1) = (1.05^n - 1) / 0.05 (util/histogram_options.go).
var bucketStarts = func() (starts [bucketCount]float64) {
	width := 1.0
	for n := 1; n < bucketCount; n++ {
		starts[n] = starts[n-1] + width
		width *= bucketGrowth
	}
	return starts
}()

// scale ties a resource's amounts, in milli-CPU or bytes, to buckets and to what is published.
type scale struct {
	first float64 // Width of the first bucket.
	limit float64 // Greatest amount recommended.
	step  float64 // Amounts are rounded up to a multiple of it.
	// slack is the share of the weight that may be missing from a percentile: what rounding
	// makes of sums that would otherwise reach it exactly.
	slack float64
}

const mebi = 1 << 20

// One pod in ten that uses more CPU than the others leaves exactly 90 % of the samples below
// it. Added up in float32, the samples of 100 pods are off by less than CPU's slack; those of
// 1,000 pods are off by up to 0.1 %, so that their 90th percentile may be the 89.9th. Memory
// peaks are few, and added up anew each time, so their sums are off by next to nothing. Their
// slack must be small: what is older than the newest window weighs 2^-28 less than half.
var (
	cpuScale    = scale{first: 10, limit: 1000 * 1000, step: 1, slack: 1e-5}
	memoryScale = scale{first: 1e7, limit: 1e12, step: mebi, slack: 1e-9}
)

// bucket returns the bucket that an amount of at least 0 falls into.
func (s scale) bucket(amount float64) int {
	n, found := slices.BinarySearch(bucketStarts[:], amount/s.first)
	if !found {
		n--
	}
	return n
}

// roundUp returns the least multiple of the step that holds the amount, cut off at the limit.
// An excess of a billionth is what a float64 computation may add to a round figure, and is not
// rounded up.
func (s scale) roundUp(amount float64) int64 {
	steps := math.Ceil(min(amount, s.limit) / s.step * (1 - 1e-9))
	return int64(steps * s.step)
}

// histogram is the weight of the samples in each bucket. It has a fixed size and no pointers,
// so that a History is one small block of memory.
type histogram [bucketCount]float32

// add gives a bucket more weight.
func (h *histogram) add(bucket int, weight float64) {
	if weight >= minWeight {
		h[bucket] += float32(weight)
	}
}

// rescale multiplies all weights, and forgets those that become too small to count.
func (h *histogram) rescale(factor float64) {
	for n, weight := range h {
		h[n] = 0
		h.add(n, float64(weight)*factor)
	}
}

// percentile returns the upper edge of the bucket in which the given share of the weight, from
// 0 to 1, is reached, in widths of the first bucket; the last bucket has no upper edge and
// returns its start (util/histogram.go, Percentile). It returns 0 if the histogram is empty.
func (h *histogram) percentile(share float64) float64 {
	var total float64
	for _, weight := range h {
		total += float64(weight)
	}
	var sum, edge float64
	for n, weight := range h {
		if weight == 0 {
			continue
		}
		edge = bucketStarts[min(n+1, bucketCount-1)]
		if sum += float64(weight); sum >= share*total {
			break
		}
	}
	return edge
}
