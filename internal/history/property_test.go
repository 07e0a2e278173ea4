package history

import (
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/internal/recommender"
)

// sample is the CPU and memory usage of a container at a time.
type sample struct {
	container string
	at        time.Time
	cores     float64
	bytes     int64
}

// usage consists of samples of several containers within four weeks. Times are whole seconds.
type usage []sample

// Generate returns random usage of up to three containers, sorted by time.
func (usage) Generate(r *rand.Rand, size int) reflect.Value {
	u := make(usage, 1+r.Intn(4*size))
	containers := []string{"app", "sidecar", "proxy"}[:1+r.Intn(3)]
	for i := range u {
		factor := math.Exp(r.NormFloat64())
		u[i] = sample{
			container: containers[r.Intn(len(containers))], at: monday.Add(time.Duration(r.Intn(28*86400)) * time.Second),
			cores: 0.2 * factor, bytes: int64(300 * mebi * factor),
		}
	}
	slices.SortFunc(u, func(a, b sample) int { return a.at.Compare(b.at) })
	return reflect.ValueOf(u)
}

// shuffled returns the samples in a random order.
func (u usage) shuffled(r *rand.Rand) usage {
	u = slices.Clone(u)
	r.Shuffle(len(u), func(i, j int) { u[i], u[j] = u[j], u[i] })
	return u
}

// addTo adds the samples to a history.
func (u usage) addTo(history *WorkloadHistory) {
	for _, s := range u {
		if err := history.AddUsage(s.container, s.at, s.cores, s.bytes); err != nil {
			panic(err)
		}
	}
}

// histories returns a history for each container.
func (u usage) histories(halfLife time.Duration) map[string]*recommender.History {
	past := map[string]*recommender.History{}
	for _, s := range u {
		if past[s.container] == nil {
			past[s.container] = recommender.New(halfLife)
		}
		if past[s.container].AddCPU(s.at, s.cores) != nil || past[s.container].AddMemory(s.at, s.bytes) != nil {
			panic("invalid sample")
		}
	}
	return past
}

func TestPropertyBackfilledUsageCountsLikeObservedUsage(t *testing.T) {
	t.Parallel()
	property := func(u usage, seed int64, hours uint8) bool {
		r := rand.New(rand.NewSource(seed))
		created := r.Intn(len(u) + 1)
		backfilledAt := created + r.Intn(len(u)-created+1)
		scaler := withHalfLife(newScaler("web", "1"), time.Duration(1+hours%144)*time.Hour)

		observed := NewStore().History(scaler, monday)
		u.addTo(observed)
		backfilled := NewStore().History(scaler, monday)
		u[created:backfilledAt].shuffled(r).addTo(backfilled)
		backfilled.Backfill(u[:created].shuffled(r).histories(backfilled.HalfLife()), Past{})
		u[backfilledAt:].shuffled(r).addTo(backfilled)

		for _, container := range []string{"app", "sidecar", "proxy"} {
			if !assert.Equal(t, recommend(observed, container), recommend(backfilled, container), container) {
				return false
			}
		}
		return assert.Equal(t, firstSample(observed), firstSample(backfilled))
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 400, Rand: rand.New(rand.NewSource(1))}))
}
