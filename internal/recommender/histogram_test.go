package recommender

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The starts in milli-CPU, computed by hand: 10 * (1.05^n - 1) / 0.05 = 200 * (1.05^n - 1).
func TestBucketStartsFollowThePublishedFormula(t *testing.T) {
	for n, milli := range map[int]float64{
		0:               0,
		1:               10,                // 200 * 0.05
		2:               20.5,              // 200 * (1.1025 - 1)
		3:               31.525,            // 200 * (1.157625 - 1)
		4:               43.10125,          // 200 * (1.21550625 - 1)
		10:              125.7789253554883, // 200 * (1.6288946267774 - 1)
		20:              330.6595410288,    // 200 * (2.653297705144 - 1)
		bucketCount - 1: 200 * 5105.547,    // 1.05^175 = 5106.547: the first start beyond 1000 cores
	} {
		assert.InEpsilon(t, milli+1, bucketStarts[n]*cpuScale.first+1, 1e-4, "bucket %d", n)
	}
	for n := range bucketStarts {
		formula := (math.Pow(1.05, float64(n)) - 1) / 0.05
		assert.InDelta(t, formula, bucketStarts[n], formula*1e-12, "bucket %d", n)
	}
	assert.Less(t, bucketStarts[bucketCount-2]*memoryScale.first, memoryScale.limit)
	assert.GreaterOrEqual(t, bucketStarts[bucketCount-1]*memoryScale.first, memoryScale.limit)
}

func TestAmountFallsIntoBucketThatStartsAtOrBelowIt(t *testing.T) {
	for amount, bucket := range map[float64]int{
		0: 0, 9.999: 0, 10: 1, 20.49: 1, 20.5: 2, 31.5: 2, 120: 9, 125.77: 9, 125.78: 10,
		1e6: bucketCount - 2, 1.03e6: bucketCount - 1, 1e12: bucketCount - 1,
	} {
		assert.Equal(t, bucket, cpuScale.bucket(amount), "%v milli-CPU", amount)
		assert.Equal(t, bucket, memoryScale.bucket(amount*1e6), "%v MB", amount)
	}
}

func TestPercentileIsUpperEdgeOfItsBucket(t *testing.T) {
	var h histogram
	assert.Zero(t, h.percentile(0.5), "an empty histogram has no percentile")

	// Bucket 3 has 9 of the weight and bucket 7 has 1, so shares of up to 90 % are in bucket 3.
	h.add(3, 9)
	h.add(7, 1)
	for _, c := range []struct {
		share  float64
		bucket int
	}{{0, 3}, {0.01, 3}, {0.5, 3}, {0.9, 3}, {0.901, 7}, {0.95, 7}, {1, 7}} {
		assert.InDelta(t, bucketStarts[c.bucket+1], h.percentile(c.share), 0, "percentile %v", c.share)
	}

	var last histogram
	last.add(bucketCount-1, 1)
	assert.InDelta(t, bucketStarts[bucketCount-1], last.percentile(0.5), 0, "the last bucket has no upper edge")
}

func TestAmountsAreRoundedUpToWholeMilliAndMi(t *testing.T) {
	for amount, want := range map[float64]int64{0: 0, 0.2: 1, 11.5: 12, 12: 12, 12 + 1e-9: 12, 1e9: 1e6, math.Inf(1): 1e6} {
		assert.Equal(t, want, cpuScale.roundUp(amount), "%v milli-CPU", amount)
	}
	for amount, want := range map[float64]int64{0: 0, 1: 1, mebi: 1, mebi + 1: 2, 11.5e6: 11, math.Inf(1): 953675} {
		assert.Equal(t, want*mebi, memoryScale.roundUp(amount), "%v bytes", amount)
	}
}

// The rounding errors of float32 are systematic: equal weights are rounded in the same direction
// each time, because the sum grows. One pod in ten uses more than the others, and a 90th percentile
// changes at exactly that share.
func TestWeightsOfManyPodsSumAccurately(t *testing.T) {
	for _, c := range []struct {
		pods, days int
		tolerance  float64 // Share of the total weight.
	}{{10, 14, cpuScale.slack}, {100, 7, cpuScale.slack}, {1000, 2, 0.001}} {
		t.Run(fmt.Sprintf("%d pods", c.pods), func(t *testing.T) {
			h := New(DefaultHalfLife)
			var low, high float64
			for minute := range c.days * 1440 {
				seconds := monday.Unix() + int64(minute)*60
				weight := math.Exp2(float64(minute) / 1440)
				h.advance(seconds)
				for pod := range c.pods {
					if pod%10 == 0 {
						h.cpu.add(1, h.weight(seconds))
						high += weight
					} else {
						h.cpu.add(0, h.weight(seconds))
						low += weight
					}
				}
			}
			share := float64(h.cpu[1]) / (float64(h.cpu[0]) + float64(h.cpu[1]))
			assert.InDelta(t, high/(low+high), share, c.tolerance)
		})
	}
}
