package usage

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxClockSkew limits how far the time of a sample may be ahead of the local clock.
const maxClockSkew = time.Minute

// Filter passes each sample once. It keeps the time of each container's newest sample until a
// sample of that time is stale. Therefore a sample does not count twice if a container is missing
// from one response, or if a response comes from another replica of the source. A Filter takes
// about 200 bytes per container. It is not safe for concurrent use.
type Filter struct {
	maxAge time.Duration
	newest map[container]int64 // nanoseconds since 1970
}

// container identifies a container of a pod.
type container struct {
	pod  types.NamespacedName
	name string
}

// Dropped has the number of samples that a Filter dropped, by reason.
type Dropped struct {
	// Seen samples were passed before, or are older than a sample that was passed.
	Seen int
	// Stale samples are older than the maximum age, or have no time.
	Stale int
	// Unusable samples are not Usable, or their time is more than a minute in the future.
	Unusable int
}

// NewFilter returns a Filter that drops samples older than maxAge. Set maxAge to several times the
// interval between two measurements of the source.
func NewFilter(maxAge time.Duration) *Filter {
	return &Filter{maxAge: maxAge, newest: map[container]int64{}}
}

// Fresh returns the samples that are usable, recent, and new, and counts the others. It modifies the
// given slice, and allocates nothing for containers with a previous sample. The time now should
// never go back.
func (f *Filter) Fresh(samples []Sample, now time.Time) ([]Sample, Dropped) {
	var dropped Dropped
	oldest, latest := now.Add(-f.maxAge), now.Add(maxClockSkew)
	fresh := slices.DeleteFunc(samples, func(sample Sample) bool {
		switch {
		case sample.Time.Before(oldest):
			dropped.Stale++
		case !sample.Usable(), sample.Time.After(latest):
			dropped.Unusable++
		case !f.advance(container{sample.Pod, sample.Container}, sample.Time.UnixNano()):
			dropped.Seen++
		default:
			return false
		}
		return true
	})
	maps.DeleteFunc(f.newest, func(_ container, newest int64) bool { return newest < oldest.UnixNano() })
	return fresh, dropped
}

// advance reports whether the time is newer than all previous times of the container. If so, it
// stores the time.
func (f *Filter) advance(c container, nanos int64) bool {
	if newest, found := f.newest[c]; found && nanos <= newest {
		return false
	}
	f.newest[c] = nanos
	return true
}
