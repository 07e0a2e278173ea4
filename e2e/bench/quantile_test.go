package bench

import (
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quantile returns a quantile of a native histogram of durations. Within a bucket, it assumes
// that the logarithms of the durations are distributed evenly.
func quantile(h *dto.Histogram, q float64) float64 {
	rank := q * float64(h.GetSampleCount())
	seen := float64(h.GetZeroCount())
	if seen >= rank {
		return h.GetZeroThreshold()
	}
	// Bucket i ends at growth^i. A span is a sequence of buckets. The deltas are the differences
	// between the count of a bucket and that of the previous one.
	growth := math.Pow(2, math.Pow(2, -float64(h.GetSchema())))
	deltas := h.GetPositiveDelta()
	count, bucket := int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		bucket += int(span.GetOffset())
		for range span.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			if seen+float64(count) >= rank {
				return math.Pow(growth, float64(bucket-1)+(rank-seen)/float64(count))
			}
			seen += float64(count)
			bucket++
		}
	}
	return math.Inf(1)
}

func TestQuantileApproximatesTheObservedDurations(t *testing.T) {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "waits", NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	})
	for i := range 1000 {
		histogram.Observe(float64(i) / 100) // Up to 9.99 seconds.
	}
	histogram.Observe(1000)
	var metric dto.Metric
	require.NoError(t, histogram.Write(&metric))

	assert.InEpsilon(t, 5, quantile(metric.GetHistogram(), 0.5), 0.1)
	assert.InEpsilon(t, 9.9, quantile(metric.GetHistogram(), 0.99), 0.1)
	assert.InEpsilon(t, 1000, quantile(metric.GetHistogram(), 1), 0.1)
	assert.Zero(t, quantile(&dto.Histogram{}, 0.99))
}

// percentile returns the lowest of the figures that is not below the given percentage of them.
func percentile(figures []float64, percent float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[int(math.Ceil(percent/100*float64(len(sorted))))-1]
}

func TestPercentileReturnsOneOfTheFigures(t *testing.T) {
	figures := []float64{4, 1, 3, 2}
	for percent, want := range map[float64]float64{25: 1, 26: 2, 50: 2, 99: 4, 100: 4} {
		assert.InDelta(t, want, percentile(figures, percent), 0, "%v %%", percent)
	}
}
