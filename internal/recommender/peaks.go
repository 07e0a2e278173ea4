package recommender

import "math"

const (
	// windowLength is the length of a window in seconds. One memory peak counts per window
	// (model/aggregations_config.go, DefaultMemoryAggregationInterval: 24 h).
	windowLength = 24 * 60 * 60

	// windowCount is the number of windows that are kept, counted back from the newest: four
	// weeks. At the default half-life the oldest has weight 2^-27.
	windowCount = 28

	// An OOM kill shows that the container needs more than it used. The need is higher by a
	// fifth, and by at least 100 Mi (model/aggregations_config.go, DefaultOOMBumpUpRatio and
	// DefaultOOMMinBumpUp).
	oomFraction = 5
	oomMinimum  = 100 * mebi
)

// peak is the highest use of memory in one window, in bytes.
type peak struct {
	window int32 // Number of the window since the epoch; 0 if there is no peak.
	used   int64 // Highest usage sample.
	needed int64 // Highest need shown by an OOM kill; 0 without a kill.
}

// peaks holds the peak of window w at index w modulo windowCount. The content depends on the set
// of samples and not on their order: each slot holds the newest window with that index, and the
// maximum of that window.
type peaks [windowCount]peak

// at returns the peak of a window, for the caller to raise. It returns nil if a newer window
// occupies the slot.
func (p *peaks) at(window int32) *peak {
	slot := &p[window%windowCount]
	if slot.window > window {
		return nil
	}
	if slot.window < window {
		*slot = peak{window: window}
	}
	return slot
}

// addUse raises the peak of a window to the usage if the peak is lower.
func (p *peaks) addUse(window int32, bytes int64) {
	if slot := p.at(window); slot != nil {
		slot.used = max(slot.used, bytes)
	}
}

// addOOMKill raises the peak of a window to the need of a container that ran out of memory while
// it requested the given amount (model/container.go, RecordOOM). The need that an earlier kill
// showed does not count as used. Otherwise the need would grow with each kill of a container that
// is killed repeatedly before it gets more memory.
func (p *peaks) addOOMKill(window int32, request int64) {
	if slot := p.at(window); slot != nil {
		used := max(request, slot.used)
		slot.needed = max(slot.needed, used+oomMinimum, used+used/oomFraction)
	}
}

// merge adds the peaks of other.
func (p *peaks) merge(other *peaks) {
	for _, added := range other {
		if added.window == 0 {
			continue
		}
		if slot := p.at(added.window); slot != nil {
			slot.used = max(slot.used, added.used)
			slot.needed = max(slot.needed, added.needed)
		}
	}
}

// newest returns the newest window with a peak, or 0 if there is no peak.
func (p *peaks) newest() int32 {
	var newest int32
	for _, peak := range p {
		newest = max(newest, peak.window)
	}
	return newest
}

// histogram returns the histogram of the peaks. A peak of the newest window has weight 1. The
// weight halves with each half-life, given in seconds, that a window is older.
func (p *peaks) histogram(halfLife int64) (h histogram) {
	newest := p.newest()
	for _, peak := range p {
		age := newest - peak.window
		if peak.window == 0 || age >= windowCount {
			continue
		}
		bytes := float64(max(peak.used, peak.needed))
		h.add(memoryScale.bucket(bytes), math.Exp2(-float64(age)*windowLength/float64(halfLife)))
	}
	return h
}
