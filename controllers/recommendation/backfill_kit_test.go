package recommendation_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// archive is a source of past usage.
type archive struct {
	samples  []usage.Sample
	failures int           // The number of queries that fail after the first sample.
	answers  chan struct{} // Queries wait until it is closed, unless it is nil.

	mutex   sync.Mutex
	queries []query
}

// query has the arguments of a query.
type query struct {
	namespace, pods string
	span            usage.Range
}

// History yields the samples, or the first one and an error.
func (a *archive) History(ctx context.Context, namespace, pods string, span usage.Range) iter.Seq2[usage.Sample, error] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.queries = append(a.queries, query{namespace, pods, span})
	isFailure := len(a.queries) <= a.failures
	return func(yield func(usage.Sample, error) bool) {
		if a.answers != nil {
			select {
			case <-a.answers:
			case <-ctx.Done():
				yield(usage.Sample{}, ctx.Err())
				return
			}
		}
		for _, sample := range a.samples {
			if !yield(sample, nil) {
				return
			}
			if isFailure {
				yield(usage.Sample{}, errors.New("the archive is closed"))
				return
			}
		}
	}
}

// Queries returns the queries so far.
func (a *archive) Queries() []query {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.queries)
}

// pastUsage returns 500 samples from three days ago, of a pod of Deployment web that no longer
// exists.
func pastUsage(namespace string) []usage.Sample {
	deleted := testenv.NewPod(namespace, "web", "zzzzz")
	samples := slices.Concat(testenv.SteadyUsage(deleted, "app", 0.9, 1500, 300), testenv.SteadyUsage(deleted, "app", 0.1, 100, 200))
	for i := range samples {
		samples[i].Time = samples[i].Time.Add(-3 * 24 * time.Hour)
	}
	return samples
}

// startBackfill runs a manager with an archive that reads a time of past usage.
func startBackfill(
	t *testing.T, namespace string, length time.Duration, source usage.Source, past *archive, changes ...testenv.Change,
) *testenv.Manager {
	t.Helper()
	options := newOptions()
	options.History = length
	return startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: source, Past: past}, changes...)
}
