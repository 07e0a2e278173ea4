package recommender

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// DefaultHalfLife is the time in which a sample of CPU or memory loses half of its weight
// (model/aggregations_config.go, DefaultCPUHistogramDecayHalfLife and
// DefaultMemoryHistogramDecayHalfLife).
const DefaultHalfLife = 24 * time.Hour

// ErrInvalidSample is wrapped by the error for an invalid sample: its usage is negative, infinite,
// or not a number, or its time is before 1970-01-02 or after the year 9999. Such a sample does not
// change the history.
var ErrInvalidSample = errors.New("invalid sample")

// The range of sample times, in seconds since the epoch. The number of a slot must be above 0.
const (
	minTime = windowLength
	maxTime = 253402300799
)

// History holds the past usage of a container. Its size is fixed, at most 1 KiB. It has no pointers,
// so an assignment is a copy. Create one with [New] or [Restore].
//
// Add the samples of any number of pods, in any order. Add each sample only once: samples have no
// identity, so History cannot detect duplicates. Times are kept to the second. There is no clock,
// so a time in the future is accepted, and all earlier samples age accordingly.
type History struct {
	// CPU usage. A sample taken at reference() has weight 1.
	cpu histogram
	// Memory usage.
	memory peaks
	// The slots with CPU samples.
	covered coverage
	// Half-life of the samples' weights, in seconds.
	halfLife int64
	// Times of the oldest and newest CPU sample in seconds since the epoch, and the number of CPU
	// samples. Memory samples are taken at the same times (model/aggregate_container_state.go,
	// "first/last sample timestamps as well as the sample count are based only on CPU samples").
	first, last, samples int64
}

// New returns an empty history with the given half-life: the time in which a sample loses half of
// its weight. A half-life below one second means [DefaultHalfLife]. Memory peaks are dropped after
// four weeks, so with a half-life above one week they are dropped while they still count.
func New(halfLife time.Duration) *History {
	return &History{halfLife: wholeSeconds(halfLife)}
}

func wholeSeconds(halfLife time.Duration) int64 {
	if halfLife < time.Second {
		halfLife = DefaultHalfLife
	}
	return int64(halfLife / time.Second)
}

// HalfLife returns the half-life of the samples' weights.
func (h *History) HalfLife() time.Duration { return time.Duration(h.halfLife) * time.Second }

// SetHalfLife changes the half-life. The values mean the same as in [New]. CPU samples keep their
// weights relative to each other, and age with the new half-life from the newest sample on. Memory
// peaks get the weights that they would have if the half-life had always been the new one.
func (h *History) SetHalfLife(halfLife time.Duration) {
	before := h.weight(h.last)
	h.halfLife = wholeSeconds(halfLife)
	h.cpu.rescale(h.weight(h.last) / before)
}

// LastSample returns the time of the newest sample, or the zero time if there is no sample. For
// memory samples and OOM kills only a slot of three hours is stored, so LastSample returns its start.
func (h *History) LastSample() time.Time {
	newest := max(h.last, int64(h.memory.newest)*slotLength)
	if newest == 0 {
		return time.Time{}
	}
	return time.Unix(newest, 0).UTC()
}

// FirstSample returns the time of the oldest CPU sample, or the zero time if there is no sample.
func (h *History) FirstSample() time.Time {
	if h.samples == 0 {
		return time.Time{}
	}
	return time.Unix(h.first, 0).UTC()
}

// AddCPU adds a sample of CPU usage in cores. An error wraps [ErrInvalidSample].
func (h *History) AddCPU(at time.Time, cores float64) error {
	seconds, err := secondsOf(at)
	if err != nil {
		return err
	}
	if math.IsNaN(cores) || math.IsInf(cores, 0) || cores < 0 {
		return fmt.Errorf("%w: %v cores", ErrInvalidSample, cores)
	}
	h.advance(seconds)
	h.covered.add(slotOf(h.last) - slotOf(seconds))
	h.cpu.add(cpuScale.bucket(cores*1000), h.weight(seconds))
	if h.samples == 0 || seconds < h.first {
		h.first = seconds
	}
	h.samples++
	return nil
}

// AddMemory adds a sample of memory usage in bytes. Only the peak of each window of 24 hours counts.
// Windows are counted back from the newest sample. A sample that is more than four weeks older than
// the newest one does not count. An error wraps [ErrInvalidSample].
func (h *History) AddMemory(at time.Time, bytes int64) error {
	slot, bytes, err := memorySample(at, bytes)
	if err != nil {
		return err
	}
	h.memory.raise(slot, float64(bytes))
	return nil
}

// AddOOMKill records that the container ran out of memory while it had the given bytes: its limit,
// or its request if it had no limit, or 0. It counts as a sample of max(bytes * 1.2, bytes + 100
// Mi). It depends on nothing else, so a kill that is added twice counts once. An error wraps
// [ErrInvalidSample].
func (h *History) AddOOMKill(at time.Time, bytes int64) error {
	slot, bytes, err := memorySample(at, bytes)
	if err != nil {
		return err
	}
	h.memory.raise(slot, need(bytes))
	return nil
}

// Merge adds the content of other, as if its samples had been added to h one by one. It does not
// change other. The two must not have CPU samples in common. If their half-lives differ, Merge
// first applies [History.SetHalfLife] to a copy of other.
func (h *History) Merge(other *History) {
	added := *other
	added.SetHalfLife(h.HalfLife())
	added.advance(h.last)
	if h.samples == 0 || added.samples > 0 && added.first < h.first {
		h.first = added.first
	}
	h.advance(added.last)
	for n := range h.covered {
		h.covered[n] |= added.covered[n]
	}
	h.samples += added.samples
	for n, weight := range added.cpu {
		h.cpu[n] += weight
	}
	h.memory.merge(&added.memory)
}

// reference returns the time at which a CPU sample has weight 1. It is the start of the half-life
// that contains the newest sample. It depends on the samples and not on their order. No weight can
// overflow, because a new sample has a weight below 2. Any reference would do, because only the
// ratios between weights matter (util/decaying_histogram.go).
func (h *History) reference() int64 { return h.last - h.last%h.halfLife }

// weight returns the weight of a CPU sample, 2^((t - reference) / half-life)
// (util/decaying_histogram.go, decayFactor).
func (h *History) weight(seconds int64) float64 {
	return math.Exp2(float64(seconds-h.reference()) / float64(h.halfLife))
}

// advance sets the time of the newest sample if the given time is newer, and adapts the weights to
// the new reference. The reference moves by a whole number of half-lives, so the weights are
// multiplied by a power of two. That loses no precision.
func (h *History) advance(seconds int64) {
	if seconds <= h.last {
		return
	}
	before := h.reference()
	h.covered.advance(slotOf(seconds) - slotOf(h.last))
	h.last = seconds
	if after := h.reference(); after > before {
		h.cpu.rescale(math.Exp2(float64(before-after) / float64(h.halfLife)))
	}
}

// secondsOf returns the time of a sample in seconds since the epoch.
func secondsOf(at time.Time) (int64, error) {
	seconds := at.Unix()
	if seconds < minTime || seconds > maxTime {
		return 0, fmt.Errorf("%w: time %v", ErrInvalidSample, at)
	}
	return seconds, nil
}

// memorySample returns the slot of a memory sample, and its bytes capped at the highest amount that
// is recommended.
func memorySample(at time.Time, bytes int64) (int32, int64, error) {
	seconds, err := secondsOf(at)
	if err != nil {
		return 0, 0, err
	}
	if bytes < 0 {
		return 0, 0, fmt.Errorf("%w: %d bytes of memory", ErrInvalidSample, bytes)
	}
	return slotOf(seconds), min(bytes, int64(memoryScale.limit)), nil
}
