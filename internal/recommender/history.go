package recommender

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// DefaultHalfLife is the time in which a sample loses half of its weight, of either resource
// (model/aggregations_config.go, DefaultCPUHistogramDecayHalfLife and
// DefaultMemoryHistogramDecayHalfLife).
const DefaultHalfLife = 24 * time.Hour

// ErrInvalidSample is what the error wraps that adding a sample returns if it cannot be one: a
// usage below zero or not a number, or a time before 1970-01-02 or after the year 9999. The
// history is then unchanged.
var ErrInvalidSample = errors.New("invalid sample")

// Times of samples, in seconds since the epoch. A window must have a number above 0.
const (
	minTime = windowLength
	maxTime = 253402300799
)

// History is what is known of a container's usage. It has the same size, less than 1.5 KiB,
// however long it becomes, and holds no pointers: an assignment is a copy. Make one with [New]
// or [Restore].
//
// Samples, of any number of pods, may be added in any order. The same sample must be added
// only once: a sample has no identity by which a second one could be told apart. Times are
// kept to the second. Since there is no clock, a time in the future is taken at its word, and
// makes all that went before old.
type History struct {
	// Usage of CPU, in which a sample taken at reference() weighs 1.
	cpu histogram
	// Usage of memory.
	memory peaks
	// Half-life of the samples' weights, in seconds.
	halfLife int64
	// Times of the oldest and newest CPU sample in seconds since the epoch, and how many there
	// are. Memory samples are taken together with them (model/aggregate_container_state.go,
	// "first/last sample timestamps as well as the sample count are based only on CPU samples").
	first, last, samples int64
}

// New returns an empty history with the given half-life, in which a sample loses half of its
// weight; less than a second stands for [DefaultHalfLife]. Memory peaks are kept for four
// weeks, so a half-life of more than one week is cut off by that.
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

// SetHalfLife changes the half-life, with the meaning of [New]. CPU samples keep the weights
// that they have relative to each other, and lose them at the new pace from the newest sample
// on. Memory peaks weigh as if the half-life had always been the new one.
func (h *History) SetHalfLife(halfLife time.Duration) {
	before := h.weight(h.last)
	h.halfLife = wholeSeconds(halfLife)
	h.cpu.rescale(h.weight(h.last) / before)
}

// LastSample returns the time of the newest sample, or the zero time if there is none. Of
// memory samples and OOM kills only the day is known, of which it is the beginning.
func (h *History) LastSample() time.Time {
	newest := max(h.last, int64(h.memory.newest())*windowLength)
	if newest == 0 {
		return time.Time{}
	}
	return time.Unix(newest, 0).UTC()
}

// FirstSample returns the time of the oldest CPU sample, or the zero time if there is none.
func (h *History) FirstSample() time.Time {
	if h.samples == 0 {
		return time.Time{}
	}
	return time.Unix(h.first, 0).UTC()
}

// AddCPU adds a sample of CPU usage in cores. The error wraps [ErrInvalidSample].
func (h *History) AddCPU(at time.Time, cores float64) error {
	seconds, err := secondsOf(at)
	if err != nil {
		return err
	}
	if math.IsNaN(cores) || math.IsInf(cores, 0) || cores < 0 {
		return fmt.Errorf("%w: %v cores", ErrInvalidSample, cores)
	}
	h.advance(seconds)
	h.cpu.add(cpuScale.bucket(cores*1000), h.weight(seconds))
	if h.samples == 0 || seconds < h.first {
		h.first = seconds
	}
	h.samples++
	return nil
}

// AddMemory adds a sample of memory usage in bytes. It counts if it is the peak of its window,
// a day in UTC; more than four weeks before the newest it does not count. The error wraps
// [ErrInvalidSample].
func (h *History) AddMemory(at time.Time, bytes int64) error {
	window, bytes, err := windowOf(at, bytes)
	if err != nil {
		return err
	}
	h.memory.addUse(window, bytes)
	return nil
}

// AddOOMKill adds that the container was killed for lack of memory, at a time when it
// requested the given bytes (0 if none). It counts as a sample of the greater of 1.2 times and
// 100 Mi more than what was used: the request, or the highest usage of the same window added
// so far if that is more. The caller adds each kill once. The error wraps [ErrInvalidSample].
func (h *History) AddOOMKill(at time.Time, requestBytes int64) error {
	window, requestBytes, err := windowOf(at, requestBytes)
	if err != nil {
		return err
	}
	h.memory.addOOMKill(window, requestBytes)
	return nil
}

// Merge adds all that other has, as if its samples had been added here one by one; other is
// not changed. The two must not have CPU samples in common. If their half-lives differ, other
// is taken as after [History.SetHalfLife].
func (h *History) Merge(other *History) {
	theirs := *other
	theirs.SetHalfLife(h.HalfLife())
	theirs.advance(h.last)
	if h.samples == 0 || theirs.samples > 0 && theirs.first < h.first {
		h.first = theirs.first
	}
	h.advance(theirs.last)
	h.samples += theirs.samples
	for n, weight := range theirs.cpu {
		h.cpu[n] += weight
	}
	h.memory.merge(&theirs.memory)
}

// reference is the time at which a CPU sample weighs 1: the beginning of the half-life that
// the newest sample is in. It follows from the samples, not from their order, and no weight
// can overflow: a sample weighs less than 2. Only weights relative to each other matter, so
// any reference is as good (util/decaying_histogram.go).
func (h *History) reference() int64 { return h.last - h.last%h.halfLife }

// weight returns the weight of a CPU sample, 2^((t - reference) / half-life)
// (util/decaying_histogram.go, decayFactor).
func (h *History) weight(seconds int64) float64 {
	return math.Exp2(float64(seconds-h.reference()) / float64(h.halfLife))
}

// advance makes the given time the newest sample's, if it is newer, and the weights fit the
// reference that goes with it. That is some whole number of half-lives on, so they are
// multiplied by a power of two, which loses nothing.
func (h *History) advance(seconds int64) {
	if seconds <= h.last {
		return
	}
	before := h.reference()
	h.last = seconds
	if after := h.reference(); after > before {
		h.cpu.rescale(math.Exp2(float64(before-after) / float64(h.halfLife)))
	}
}

// secondsOf returns a sample's time in seconds since the epoch.
func secondsOf(at time.Time) (int64, error) {
	seconds := at.Unix()
	if seconds < minTime || seconds > maxTime {
		return 0, fmt.Errorf("%w: time %v", ErrInvalidSample, at)
	}
	return seconds, nil
}

// windowOf returns a memory sample's window and its bytes, cut off where the last bucket begins.
func windowOf(at time.Time, bytes int64) (int32, int64, error) {
	seconds, err := secondsOf(at)
	if err != nil {
		return 0, 0, err
	}
	if bytes < 0 {
		return 0, 0, fmt.Errorf("%w: %d bytes of memory", ErrInvalidSample, bytes)
	}
	return int32(seconds / windowLength), min(bytes, int64(memoryScale.limit)), nil
}
