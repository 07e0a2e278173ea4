package recommender

import (
	"math"
	"slices"
)

// The shape of the histograms, published in model/aggregations_config.go. The first bucket has
// a width of 0.01 core or 10 MB. Each further bucket is 5 % wider than the one before it. The
// last one starts at or beyond 1000 cores or 1e12 B. Both resources have
// ceil(log(1 + 0.05*1000/0.01) / log(1.05)) + 1 = 176 buckets (util/histogram_options.go).
const (
	bucketGrowth = 1.05
	bucketCount  = 176
)

// minWeight is the smallest weight that is kept. A sample older than 32 half-lives is dropped.
const minWeight = 1.0 / (1 << 32)

// bucketStarts are the starts of the buckets, in units of the first bucket's width. Bucket n starts
// at 1 + 1.05 + ... + 1.05^(n-1) = (1.05^n - 1) / 0.05 (util/histogram_options.go).
var bucketStarts = func() (starts [bucketCount]float64) {
	width := 1.0
	for n := 1; n < bucketCount; n++ {
		starts[n] = starts[n-1] + width
		width *= bucketGrowth
	}
	return starts
}()

// scale converts a resource's amounts, in milli-CPU or bytes, to buckets and to results.
type scale struct {
	first float64 // Width of the first bucket.
	limit float64 // Highest amount recommended.
	step  float64 // Results are rounded up to a multiple of it.
	// slack is the share of the weight that may be missing from a percentile. It makes up for
	// rounding in sums that would otherwise reach the percentile exactly.
	slack float64
}

const mebi = 1 << 20

// If one pod in ten uses more CPU than the others, exactly 90 % of the samples are lower. A
// float32 sum over the samples of 100 pods has an error below the slack for CPU. Over 1,000 pods
// the error is up to 0.1 %, so the 90th percentile may be the 89.9th. Memory peaks are few, and
// every recommendation sums them again, so their sums are almost exact. Their slack must be small,
// because all windows before the newest one together have only 2^-28 less than half of the weight.
var (
	cpuScale    = scale{first: 10, limit: 1000 * 1000, step: 1, slack: 1e-5}
	memoryScale = scale{first: 1e7, limit: 1e12, step: mebi, slack: 1e-9}
)

// bucket returns the bucket that contains an amount of 0 or more.
func (s scale) bucket(amount float64) int {
	n, found := slices.BinarySearch(bucketStarts[:], amount/s.first)
	if !found {
		n--
	}
	return n
}

// roundUp rounds an amount up to a multiple of the step, after capping it at the limit. An excess
// of up to a billionth is ignored, because float64 arithmetic may add that much to an exact result.
func (s scale) roundUp(amount float64) int64 {
	steps := math.Ceil(min(amount, s.limit) / s.step * (1 - 1e-9))
	return int64(steps * s.step)
}

// histogram holds the weight of the samples in each bucket. It has a fixed size and no pointers,
// so that a History is one small block of memory.
type histogram [bucketCount]float32

// add adds weight to a bucket. It ignores a weight that is too small to count.
func (h *histogram) add(bucket int, weight float64) {
	if weight >= minWeight {
		h[bucket] += float32(weight)
	}
}

// rescale multiplies all weights, and drops those that become too small to count.
func (h *histogram) rescale(factor float64) {
	for n, weight := range h {
		h[n] = 0
		h.add(n, float64(weight)*factor)
	}
}

// percentile returns the upper edge of the bucket that reaches the given share of the weight, from
// 0 to 1. The unit is the first bucket's width. The last bucket has no upper edge, so percentile
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
