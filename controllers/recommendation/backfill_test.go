package controllers

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

// archive is a source of the usage of the past.
type archive struct {
	samples  []usage.Sample
	failures int           // So many queries fail, after the first sample.
	opens    chan struct{} // If not nil, answers come when it is closed.

	mutex   sync.Mutex
	queries []query
}

// query is what an archive was asked.
type query struct {
	namespace, pods string
	span            usage.Range
}

// History yields the samples, or one and an error.
func (a *archive) History(ctx context.Context, namespace, pods string, span usage.Range) iter.Seq2[usage.Sample, error] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.queries = append(a.queries, query{namespace, pods, span})
	fails := len(a.queries) <= a.failures
	return func(yield func(usage.Sample, error) bool) {
		if a.opens != nil {
			select {
			case <-a.opens:
			case <-ctx.Done():
				yield(usage.Sample{}, ctx.Err())
				return
			}
		}
		for _, sample := range a.samples {
			if !yield(sample, nil) {
				return
			}
			if fails {
				yield(usage.Sample{}, errors.New("the archive is shut"))
				return
			}
		}
	}
}

func (a *archive) asked() []query {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.queries)
}

// past returns samples of days ago, of a pod that is gone.
func past(namespace string) []usage.Sample {
	gone := newPod(namespace, "web", "zzzzz")
	samples := slices.Concat(uses(gone, "app", 0.9, 1500, 300), uses(gone, "app", 0.1, 100, 200))
	for i := range samples {
		samples[i].Time = samples[i].Time.Add(-3 * 24 * time.Hour)
	}
	return samples
}

func withHistory(history time.Duration) Options {
	options := newOptions()
	options.Usage.History = history
	return options
}

func TestThePastAddsUpWithThePresentWhicheverComesFirst(t *testing.T) {
	t.Parallel()
	for name, isPastFirst := range map[string]bool{"the past": true, "the present": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := measured(t, namespace, "web", "app")
			present := uses(pod, "app", 0.3, 300, 5)
			before := archive{samples: past(namespace), opens: make(chan struct{})}
			unusable := before.samples[0]
			unusable.Memory = -1
			before.samples = append(before.samples, unusable)
			var source meter
			m := startManagerWith(t, namespace, withHistory(8*24*time.Hour), usageSource{Source: &source, past: &before})
			scalerIs(t, scaler, isFalse, "NoSamples")
			all := figuresOf(t, append(present, past(namespace)...), "app")
			if isPastFirst {
				close(before.opens)
				recommends(t, scaler, figuresOf(t, past(namespace), "app")...)
				source.show(present...)
			} else {
				source.show(present...)
				recommends(t, scaler, figuresOf(t, present, "app")...)
				close(before.opens)
			}
			source.settle(t)
			recommends(t, scaler, all...)
			m.stop()
			saved := checkpointed(t, scaler, "app").Recommend(recommender.DefaultPolicy(1))
			assertSame(t, all[0].UpperBound, recommendation("app", checkpointed(t, scaler, "app"), recommender.DefaultPolicy(1)).UpperBound)
			assert.Equal(t, int64(505), saved.Samples)
			assert.True(t, checkpoint(t, scaler).Data.Backfilled)
		})
	}
}

func TestThePastLosesItsWeightAtTheHalfLifeThatIsAskedFor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := measured(t, namespace, "web", "app")
	const halfLife = time.Hour
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: halfLife}}
	})
	// At an hour the first, at a day the second decides.
	gone := newPod(namespace, "web", "zzzzz")
	samples := slices.Concat(uses(gone, "app", 0.9, 300, 100), uses(gone, "app", 0.1, 300, 60))
	for i := range 100 {
		samples[i].Time = samples[i].Time.Add(-12 * time.Hour)
	}
	history := recommender.New(halfLife)
	for _, sample := range samples {
		require.NoError(t, history.AddCPU(sample.Time, sample.CPU))
		require.NoError(t, history.AddMemory(sample.Time, sample.Memory))
	}
	startManagerWith(t, namespace, withHistory(24*time.Hour), usageSource{Source: &meter{}, past: &archive{samples: samples}})
	recommends(t, scaler, figures("app", history, 1))
}

func TestThePastIsThatOfTheDeploymentsPodsUpToThePresent(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	present := uses(pod, "app", 0.3, 300, 5)
	var source meter
	source.show(present...)
	var before archive
	const history = 48 * time.Hour
	startManagerWith(t, namespace, withHistory(history), usageSource{Source: &source, past: &before})
	scalerIs(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return len(before.asked()) > 0 }, soon, often)
	asked := before.asked()[0]
	assert.Equal(t, namespace, asked.namespace)
	assert.Equal(t, podNames("web"), asked.pods)
	first := present[0].Time.Truncate(time.Second)
	assert.True(t, asked.span.From.Equal(first.Add(-history)), asked.span.From)
	assert.True(t, asked.span.To.Equal(first.Add(-backfillStep)), "what the present has is not asked for")
	assert.Equal(t, backfillStep, asked.span.Step)
}

func TestThePastIsAskedForUntilItIsKnownAndThenNeverAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := measured(t, namespace, "web", "app")
	before := archive{samples: past(namespace), failures: 1}
	var passes passCounter
	m := startManagerWith(t, namespace, withHistory(24*time.Hour), usageSource{Source: &meter{}, past: &before}, passes.use)
	recommends(t, scaler, figuresOf(t, past(namespace), "app")...)
	assert.Len(t, before.asked(), 2)
	again := passes.over(scaler)
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	require.Eventually(t, func() bool { return passes.over(scaler) > again }, soon, often)
	m.stop()
	assert.Len(t, before.asked(), 2)
	assert.Equal(t, int64(500), savedSamples(t, scaler))

	var after archive
	var passesAfter passCounter
	m = startManagerWith(t, namespace, withHistory(24*time.Hour), usageSource{Source: &meter{}, past: &after}, passesAfter.use)
	require.Eventually(t, func() bool { return passesAfter.over(scaler) > 0 }, soon, often)
	m.stop()
	assert.Empty(t, after.asked(), "neither after a restart")
	assertSame(t, figuresOf(t, past(namespace), "app")[0].Target, refresh(t, scaler).Status.Recommendations[0].Target)
}

func TestASuspendedScalersPastIsReadWhenItGoesOn(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := measured(t, namespace, "web", "app")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	before := archive{samples: past(namespace)}
	startManagerWith(t, namespace, withHistory(24*time.Hour), usageSource{Source: &meter{}, past: &before})
	status := scalerIs(t, scaler, isFalse, "Suspended")
	assert.Empty(t, status.Recommendations)
	assert.Empty(t, before.asked())
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	recommends(t, scaler, figuresOf(t, past(namespace), "app")...)
}
