package recommender

import "math"

const (
	// windowLength is the length of a window in seconds. One memory peak counts per window
	// (model/aggregations_config.go, DefaultMemoryAggregationInterval: 24 h).
	windowLength = 24 * 60 * 60

	// windowCount is the number of windows that are kept, counted back from the newest: four
	// weeks. At the default half-life the oldest has weight 2^-27.
	windowCount = 28

	// slotLength is the length of a slot in seconds. Windows consist of whole slots, so that they
	// slide: they are counted back from the slot of the newest sample, and not from midnight.
	slotLength = 3 * 60 * 60

	// slotsPerWindow is the number of slots in each window but the newest, which also has the
	// slot of the newest sample. So it covers the last 24 hours at any time.
	slotsPerWindow = windowLength / slotLength

	// slotCount is the number of slots in all windows.
	slotCount = windowCount*slotsPerWindow + 1

	// minPeakWeight is the smallest weight of a peak that counts. A float32 cannot hold the sum of
	// a smaller one and all others.
	minPeakWeight = 1.0 / (1 << 24)

	// An OOM kill shows that the container needs more than it had. The need is higher by a fifth,
	// and by at least 100 Mi (model/aggregations_config.go, DefaultOOMBumpUpRatio and
	// DefaultOOMMinBumpUp).
	oomFraction = 5
	oomMinimum  = 100 * mebi
)

// slotOf returns the number of the slot of a time, since the epoch.
func slotOf(seconds int64) int32 { return int32(seconds / slotLength) }

// windowOf returns how many windows a slot is older than the newest one.
func windowOf(newest, slot int32) int32 { return max(newest-slot-1, 0) / slotsPerWindow }

// peaks holds the highest use of memory in each slot of the past four weeks, and the highest need
// that an OOM kill showed. The content depends on the set of samples and not on their order.
type peaks struct {
	newest int32 // Number of the newest slot with a peak; 0 if there is no peak.
	// buckets has the peak of slot s at index s modulo slotCount, as the number of its bucket
	// plus 1. It is 0 if there is no peak.
	buckets [slotCount]uint8
}

// raise raises the peak of a slot to an amount of bytes. It ignores a slot that is too old.
func (p *peaks) raise(slot int32, bytes float64) {
	p.raiseTo(slot, uint8(memoryScale.bucket(bytes)+1))
}

// raiseTo raises the peak of a slot to a bucket, given plus 1.
func (p *peaks) raiseTo(slot int32, bucket uint8) {
	if slot <= p.newest-slotCount {
		return
	}
	for next := max(p.newest, slot-slotCount) + 1; next <= slot; next++ {
		p.buckets[next%slotCount] = 0 // Forget the slot that is four weeks older.
	}
	p.newest = max(p.newest, slot)
	at := &p.buckets[slot%slotCount]
	*at = max(*at, bucket)
}

// need returns what a container needs that ran out of memory while it had an amount of bytes
// (model/container.go, RecordOOM).
func need(bytes int64) float64 {
	return float64(max(bytes+oomMinimum, bytes+bytes/oomFraction))
}

// merge adds the peaks of other.
func (p *peaks) merge(other *peaks) {
	for age := range min(slotCount, other.newest) {
		slot := other.newest - age
		if bucket := other.buckets[slot%slotCount]; bucket > 0 {
			p.raiseTo(slot, bucket)
		}
	}
}

// histogram returns the histogram of the windows' peaks. The peak of the newest window has weight
// 1. The weight halves with each half-life, given in seconds, that a window is older.
func (p *peaks) histogram(halfLife int64) (h histogram) {
	var highest [windowCount]uint8
	for age := range min(slotCount, p.newest) {
		window := &highest[windowOf(p.newest, p.newest-age)]
		*window = max(*window, p.buckets[(p.newest-age)%slotCount])
	}
	for age, bucket := range &highest {
		weight := math.Exp2(-float64(age) * windowLength / float64(halfLife))
		if bucket > 0 && weight >= minPeakWeight {
			h.add(int(bucket-1), weight)
		}
	}
	return h
}
