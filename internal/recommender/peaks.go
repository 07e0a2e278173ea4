package recommender

import "math"

const (
	// windowLength is the time, in seconds, of which one memory peak counts
	// (model/aggregations_config.go, DefaultMemoryAggregationInterval: 24 h).
	windowLength = 24 * 60 * 60

	// windowCount is how many windows of memory peaks are kept, counted back from the newest:
	// four weeks. At the default half-life the oldest weighs 2^-27.
	windowCount = 28

	// An OOM kill shows that more is needed than was used: by a fifth, and by 100 Mi at least
	// (model/aggregations_config.go, DefaultOOMBumpUpRatio and DefaultOOMMinBumpUp).
	oomFraction = 5
	oomMinimum  = 100 * mebi
)

// peak is the greatest use of memory in one window, in bytes.
type peak struct {
	window int32 // Number of the window since the epoch; 0 where there is no peak.
	used   int64 // Greatest usage sample.
	needed int64 // Greatest need that an OOM kill showed; 0 without one.
}

// peaks has the peak of window w at index w modulo windowCount. What is there depends on the
// set of samples and not on their order: each place holds the newest window that belongs
// there, and its maximum.
type peaks [windowCount]peak

// at returns the peak of a window, to be raised, or nil if a newer window has its place.
func (p *peaks) at(window int32) *peak {
	place := &p[window%windowCount]
	if place.window > window {
		return nil
	}
	if place.window < window {
		*place = peak{window: window}
	}
	return place
}

// addUse raises a window's peak to the usage, if it is lower.
func (p *peaks) addUse(window int32, bytes int64) {
	if place := p.at(window); place != nil {
		place.used = max(place.used, bytes)
	}
}

// addOOMKill raises a window's peak to what a container needs that was killed for lack of
// memory while it requested the given amount (model/container.go, RecordOOM). What an earlier
// kill showed does not count as used: a container killed again and again, before it gets more
// memory, would otherwise need ever more.
func (p *peaks) addOOMKill(window int32, request int64) {
	if place := p.at(window); place != nil {
		used := max(request, place.used)
		place.needed = max(place.needed, used+oomMinimum, used+used/oomFraction)
	}
}

// merge adds the peaks of other.
func (p *peaks) merge(other *peaks) {
	for _, theirs := range other {
		if theirs.window == 0 {
			continue
		}
		if ours := p.at(theirs.window); ours != nil {
			ours.used = max(ours.used, theirs.used)
			ours.needed = max(ours.needed, theirs.needed)
		}
	}
}

// newest returns the newest window with a peak, or 0 if there is none.
func (p *peaks) newest() int32 {
	var newest int32
	for _, peak := range p {
		newest = max(newest, peak.window)
	}
	return newest
}

// histogram returns the histogram of the peaks that are kept. A peak of the newest window
// weighs 1, and half of it with each half-life, in seconds, before.
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
