package recommendation_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

var errClosed = errors.New("the archive is closed")

// archive is a source of past usage.
type archive struct {
	samples  []usage.Sample
	failures int           // The number of queries that fail.
	err      error         // The error of these queries; nil means one that can be momentary.
	tooMany  time.Duration // A query of this time or more is too large, unless it is zero.
	answers  chan struct{} // Queries wait until it is closed, unless it is nil.

	mutex   sync.Mutex
	queries []query
}

// query has the arguments of a query.
type query struct {
	namespace, pods string
	span            usage.Range
	isAnswered      bool
}

// History yields the samples of the pods in the range, or an error.
func (a *archive) History(ctx context.Context, namespace, pods string, span usage.Range) iter.Seq2[usage.Sample, error] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var failure error
	switch {
	case len(a.queries) < a.failures:
		failure = cmp.Or(a.err, errClosed)
	case a.tooMany > 0 && span.To.Sub(span.From) >= a.tooMany:
		failure = &usage.Error{Advice: "the archive refuses long ranges", Cause: errors.New("no"), IsTooLarge: true, IsPermanent: true}
	}
	name := regexp.MustCompile("^(?:" + pods + ")$")
	a.queries = append(a.queries, query{namespace, pods, span, failure == nil})
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
			// As if it was measured at the next time of the range.
			isInRange := sample.Time.After(span.From.Add(-span.Step)) && !sample.Time.After(span.To)
			if isInRange && name.MatchString(sample.Pod.Name) && !yield(sample, nil) {
				return
			}
		}
		if failure != nil {
			yield(usage.Sample{}, failure)
		}
	}
}

// Queries returns the queries so far.
func (a *archive) Queries() []query {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.queries)
}

// Answered returns the ranges of the queries so far that were answered.
func (a *archive) Answered() []usage.Range {
	var all []usage.Range
	for _, query := range a.Queries() {
		if query.isAnswered {
			all = append(all, query.span)
		}
	}
	return all
}

// assertReadOnce asserts that a time up to its newest range was read, the newest first, without gaps
// and overlaps.
func assertReadOnce(t *testing.T, parts []usage.Range, length time.Duration) {
	t.Helper()
	require.NotEmpty(t, parts)
	for i := 1; i < len(parts); i++ {
		assert.Equal(t, parts[i-1].From.Add(-time.Minute), parts[i].To, "part %d", i)
	}
	assert.Equal(t, length-time.Minute, parts[0].To.Sub(parts[len(parts)-1].From))
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
	return startManagerWith(t, []string{namespace}, withHistory(length), recommendation.Source{Source: source, Past: past}, changes...)
}

// withHistory returns options to read a time of past usage.
func withHistory(length time.Duration) recommendation.UsageOptions {
	options := newOptions()
	options.History = length
	return options
}

// refusingArchive is an archive that refuses all queries after some.
type refusingArchive struct {
	*archive
	after   int
	refused atomic.Int64
}

func (a *refusingArchive) History(ctx context.Context, namespace, pods string, span usage.Range) iter.Seq2[usage.Sample, error] {
	if len(a.Queries()) < a.after {
		return a.archive.History(ctx, namespace, pods, span)
	}
	a.refused.Add(1)
	return func(yield func(usage.Sample, error) bool) {
		yield(usage.Sample{}, &usage.Error{Advice: "the archive is locked", Cause: errClosed, IsPermanent: true})
	}
}
