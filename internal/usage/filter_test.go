package usage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

const maxAge = 10 * time.Minute

func noon() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// sampleOf returns a usable sample of a container in a pod with the same name.
func sampleOf(name string, at time.Time) Sample {
	return Sample{Pod: types.NamespacedName{Namespace: "n", Name: name}, Container: name, Time: at, CPU: 1, Memory: 1}
}

func TestFilterPassesEachSampleOnce(t *testing.T) {
	filter := NewFilter(maxAge)
	first := []Sample{sampleOf("a", noon()), sampleOf("b", noon())}

	fresh, dropped := filter.Fresh(slices.Clone(first), noon())
	assert.Equal(t, first, fresh)
	assert.Equal(t, Dropped{}, dropped)

	fresh, dropped = filter.Fresh(slices.Clone(first), noon().Add(time.Minute))
	assert.Empty(t, fresh)
	assert.Equal(t, Dropped{Seen: 2}, dropped)

	newer := sampleOf("b", noon().Add(time.Second))
	fresh, dropped = filter.Fresh([]Sample{first[0], newer}, noon().Add(time.Minute))
	assert.Equal(t, []Sample{newer}, fresh)
	assert.Equal(t, Dropped{Seen: 1}, dropped)
}

func TestFilterDropsOlderSampleOfAnotherReplica(t *testing.T) {
	filter := NewFilter(maxAge)
	filter.Fresh([]Sample{sampleOf("a", noon())}, noon())
	fresh, dropped := filter.Fresh([]Sample{sampleOf("a", noon().Add(-time.Second))}, noon())
	assert.Empty(t, fresh)
	assert.Equal(t, Dropped{Seen: 1}, dropped)
}

func TestFilterDistinguishesNamespacePodAndContainer(t *testing.T) {
	samples := make([]Sample, 0, 8)
	for i := range 8 {
		samples = append(samples, Sample{
			Pod:       types.NamespacedName{Namespace: strconv.Itoa(i & 1), Name: strconv.Itoa(i & 2)},
			Container: strconv.Itoa(i & 4), Time: noon(),
		})
	}
	fresh, _ := NewFilter(maxAge).Fresh(samples, noon())
	assert.Len(t, fresh, 8)
}

func TestFilterDropsAndCountsInvalidSamples(t *testing.T) {
	changed := func(change func(*Sample)) Sample {
		sample := sampleOf("a", noon())
		change(&sample)
		return sample
	}
	filter := NewFilter(maxAge)
	fresh, dropped := filter.Fresh([]Sample{
		changed(func(s *Sample) { s.CPU = math.NaN() }),
		changed(func(s *Sample) { s.CPU = math.Inf(1) }),
		changed(func(s *Sample) { s.CPU = -0.1 }),
		changed(func(s *Sample) { s.Memory = -1 }),
		changed(func(s *Sample) { s.Time = noon().Add(time.Hour) }),
		changed(func(s *Sample) { s.Time = noon().Add(-maxAge - 1) }),
		changed(func(s *Sample) { s.Time = time.Time{} }),
	}, noon())
	assert.Empty(t, fresh)
	assert.Equal(t, Dropped{Unusable: 5, Stale: 2}, dropped)
	assert.Empty(t, filter.newest, "a dropped sample must not block later samples")
}

func TestFilterAcceptsSlightClockSkew(t *testing.T) {
	fresh, _ := NewFilter(maxAge).Fresh([]Sample{sampleOf("a", noon().Add(maxClockSkew))}, noon())
	assert.Len(t, fresh, 1)
}

func TestFilterKeepsContainerUntilItsLastSampleIsStale(t *testing.T) {
	filter := NewFilter(maxAge)
	sample := sampleOf("a", noon())
	filter.Fresh([]Sample{sample}, noon())

	filter.Fresh(nil, noon().Add(maxAge))
	assert.Len(t, filter.newest, 1)
	_, dropped := filter.Fresh([]Sample{sample}, noon().Add(maxAge))
	assert.Equal(t, Dropped{Seen: 1}, dropped, "the container was missing from one response")

	filter.Fresh(nil, noon().Add(maxAge+1))
	assert.Empty(t, filter.newest)
	_, dropped = filter.Fresh([]Sample{sample}, noon().Add(maxAge+1))
	assert.Equal(t, Dropped{Stale: 1}, dropped)
}

func TestFilterAllocatesNothingForKnownContainers(t *testing.T) {
	const containers = 1000
	filter := NewFilter(maxAge)
	samples, names := make([]Sample, containers), make([]string, containers)
	for i := range names {
		names[i] = fmt.Sprint("pod-", i)
	}
	now := noon()
	read := func() {
		now = now.Add(time.Minute)
		for i := range samples {
			samples[i] = sampleOf("a", now)
			samples[i].Pod.Name = names[i]
		}
		filter.Fresh(samples, now)
	}
	assert.Zero(t, testing.AllocsPerRun(20, read))
	assert.Len(t, filter.newest, containers)
}
