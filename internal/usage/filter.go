package usage

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxClockSkew is how far a sample's time may be ahead of the reader's clock.
const maxClockSkew = time.Minute

// Filter passes each sample once. It remembers the time of the newest sample of each container
// for as long as a sample of that time would not be too old, so that neither an answer in which
// a container is missing nor one that comes from another replica of the source makes a sample
// count twice. It takes about 200 bytes for a container. Not for use by several goroutines.
type Filter struct {
	maxAge time.Duration
	newest map[container]int64 // nanoseconds since 1970
}

// container names a container of a pod.
type container struct {
	pod  types.NamespacedName
	name string
}

// Dropped is how many samples a Filter did not pass, by why.
type Dropped struct {
	// Seen were passed before, or are older than one that was.
	Seen int
	// Stale are older than the greatest age, or have no time.
	Stale int
	// Unusable are not Usable, or measured more than a minute in the future.
	Unusable int
}

// NewFilter returns a Filter that drops samples older than maxAge, which should be several
// times as long as the source takes to measure anew.
func NewFilter(maxAge time.Duration) *Filter {
	return &Filter{maxAge: maxAge, newest: map[container]int64{}}
}

// Fresh returns the samples that are usable, recent and not seen before, and counts the others.
// It changes the slice that it is given, and allocates nothing for a container that it knows.
// The time now should never go back.
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

// Containers returns how many containers are remembered.
func (f *Filter) Containers() int { return len(f.newest) }

// advance reports whether the time is newer than any before it of the container, and if so
// remembers it.
func (f *Filter) advance(of container, nanos int64) bool {
	if newest, known := f.newest[of]; known && nanos <= newest {
		return false
	}
	f.newest[of] = nanos
	return true
}
