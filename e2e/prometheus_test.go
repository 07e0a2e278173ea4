package e2e_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/e2e/prometheus"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

// usageWindow is short, so that samples show a change of usage after a few seconds. The server scrapes
// every second.
const usageWindow = 10 * time.Second

// The subtests share one server and follow one another. The last ones stop the server.
func TestPrometheusSourceReadsCurrentAndPastUsage(t *testing.T) {
	t.Parallel()
	start := time.Now()
	namespace := newNamespace(t)
	deployment := newDeployment(namespace, "web", 2)
	deployment.Spec.Template.Annotations = usageAnnotations("400m", "300Mi")
	create(t, deployment)
	past := newPast(namespace)
	server := startPrometheus(t, past.write)
	source := prometheusSource(t, server, usage.PrometheusConfig{Window: usageWindow, Namespaces: []string{"no-such-namespace", namespace}})

	t.Run("Read returns plausible CPU usage from the first sample on", func(t *testing.T) {
		var first []usage.Sample
		eventually(t, func(c *assert.CollectT) {
			var err error
			first, err = source.Read(context.Background())
			require.NoError(c, err)
			require.NotEmpty(c, first)
		})
		for _, sample := range first {
			assert.InEpsilon(t, 0.4, sample.CPU, 0.2, "%v", sample)
		}
	})

	t.Run("Read returns the CPU, memory and scrape time of each container", func(t *testing.T) {
		eventually(t, func(c *assert.CollectT) {
			pods := ownedPods(c, deployment)
			require.Len(c, pods, 2)
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			require.Len(c, samples, 2)
			for i := range pods {
				requireUsage(c, samples, &pods[i], "400m", "300Mi")
			}
		})
	})

	t.Run("Read follows the usage of one pod", func(t *testing.T) {
		pods := ownedPods(t, deployment)
		edit(t, &pods[0], func(pod *corev1.Pod) { pod.Annotations = usageAnnotations("900m", "700Mi") })

		eventually(t, func(c *assert.CollectT) {
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			requireUsage(c, samples, &pods[0], "900m", "700Mi")
			requireUsage(c, samples, &pods[1], "400m", "300Mi")
		})
	})

	t.Run("History of the current usage gives the same recommendation in any order", func(t *testing.T) {
		samples := historyOf(t, source, namespace, "web-.*", usage.Range{From: start, To: time.Now(), Step: time.Second})

		recommendation := recommendInAnyOrder(t, samples)

		assert.Equal(t, int64(len(samples)), recommendation.Samples)
		assert.Equal(t, recommendMemory(t, start, "700Mi"), recommendation.Memory.Target, "target for the highest usage")
		assert.Greater(t, recommendation.CPU.Target, int64(400))
		for _, sample := range samples {
			assert.Greater(t, sample.CPU, 0.3, "a sample covers a whole window: %v", sample)
		}
	})

	t.Run("History and Read return no samples of a deleted pod", func(t *testing.T) {
		pod := ownedPods(t, deployment)[0]
		remove(t, &pod)
		eventually(t, func(c *assert.CollectT) {
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			require.NotEmpty(c, samples)
			require.False(c, slices.ContainsFunc(samples, func(s usage.Sample) bool { return s.Pod.Name == pod.Name }))
		})

		now := time.Now().Truncate(time.Millisecond)
		span := usage.Range{From: now.Add(-usageWindow), To: now, Step: time.Second}
		for _, sample := range historyOf(t, source, namespace, "web-.*", span) {
			assert.False(t, sample.Pod.Name == pod.Name && sample.Time.Equal(now), "%v", sample)
		}
	})

	t.Run("History of past days returns exactly the measured samples", func(t *testing.T) {
		source := prometheusSource(t, server, usage.PrometheusConfig{Window: 2 * pastStep})
		want := past.samples()

		got := historyOf(t, source, namespace, "past-[0-9]", usage.Range{From: past.from, To: past.at(pastSteps), Step: pastStep})

		for i := range min(len(want), len(got)) {
			require.InDelta(t, want[i].CPU, got[i].CPU, 1e-6, "at %v", want[i].Time)
			got[i].CPU, got[i].Time = want[i].CPU, got[i].Time.UTC()
			require.Equal(t, want[i], got[i])
		}
		if len(got) != len(want) { // There are too many samples to print them.
			require.Fail(t, "wrong number of samples", "want %d, got %d", len(want), len(got))
		}
		recommendInAnyOrder(t, got)
	})

	t.Run("History returns exact CPU usage from the first sample on, also after a restart", func(t *testing.T) {
		const windowSteps = 10
		source := prometheusSource(t, server, usage.PrometheusConfig{Window: windowSteps * pastStep})

		got := historyOf(t, source, namespace, "restarted-0", usage.Range{From: past.from, To: past.at(restartedSteps - 1), Step: pastStep})

		assert.Len(t, got, restartedSteps-2*windowSteps)
		for _, sample := range got {
			assert.InDelta(t, 1, sample.CPU, 1e-6, "at %v", sample.Time)
		}
	})

	t.Run("the error for a stopped Prometheus names its flag", func(t *testing.T) {
		require.NoError(t, server.Stop(t.Context()))

		for _, err := range readBothWays(t, source, namespace) {
			requireAdvice(t, err, server.URL(), "--prometheus-url")
		}
	})

	t.Run("the error for a refused query names the limit", func(t *testing.T) {
		require.NoError(t, server.Start(t.Context(), "--query.max-samples=1"))

		for _, err := range readBothWays(t, source, namespace) {
			requireAdvice(t, err, server.URL(), "--query.max-samples")
		}
	})

	t.Run("Read works again after the server has restarted", func(t *testing.T) {
		require.NoError(t, server.Stop(t.Context()))
		require.NoError(t, server.Start(t.Context()))

		eventually(t, func(c *assert.CollectT) {
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			require.Len(c, samples, 2)
		})
	})
}

// startPrometheus starts a server that scrapes the cluster's nodes and has the given past samples.
func startPrometheus(t *testing.T, past func(io.Writer) error) *prometheus.Server {
	t.Helper()
	var nodes corev1.NodeList
	require.NoError(t, env.client.List(t.Context(), &nodes))
	server, err := prometheus.New(t.Context(), prometheus.Options{
		Dir: filepath.Join(env.Dir(), "prometheus", t.Name()), Tools: tools, Nodes: nodes.Items, Past: past,
	})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	return server
}

// prometheusSource returns a source of usage that reads from a server.
func prometheusSource(t *testing.T, server *prometheus.Server, config usage.PrometheusConfig) *usage.Prometheus {
	t.Helper()
	config.URL = server.URL()
	source, err := usage.NewPrometheus(config)
	require.NoError(t, err)
	return source
}

// usageAnnotations returns pod annotations that set the usage of each container of a simulated pod.
func usageAnnotations(cpu, memory string) map[string]string {
	return map[string]string{"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}
}

// requireUsage requires a recent sample of a pod's only container with this usage. A CPU rate is not
// exact because it covers whole scrapes.
func requireUsage(t require.TestingT, samples []usage.Sample, pod *corev1.Pod, cpu, memory string) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	i := slices.IndexFunc(samples, func(s usage.Sample) bool { return s.Pod == key && s.Container == "other" })
	require.GreaterOrEqual(t, i, 0, "pod %s has no sample", pod.Name)
	cores, bytes := resource.MustParse(cpu), resource.MustParse(memory)
	require.InEpsilon(t, cores.AsApproximateFloat64(), samples[i].CPU, 0.05)
	require.Equal(t, bytes.Value(), samples[i].Memory)
	require.WithinDuration(t, time.Now(), samples[i].Time, usageWindow)
}

// historyOf returns the samples of a range. It requires that there are some, and that all are usable.
func historyOf(t *testing.T, source usage.HistoryProvider, namespace, pods string, span usage.Range) []usage.Sample {
	t.Helper()
	var samples []usage.Sample
	for sample, err := range source.History(t.Context(), namespace, pods, span) {
		require.NoError(t, err)
		require.True(t, sample.Usable(), "%v", sample)
		samples = append(samples, sample)
	}
	require.NotEmpty(t, samples)
	return samples
}

// recommendInAnyOrder returns the recommendation for samples. It requires the same recommendation for
// other orders of the samples.
func recommendInAnyOrder(t *testing.T, samples []usage.Sample) recommender.Recommendation {
	t.Helper()
	recommend := func() recommender.Recommendation {
		history := recommender.New(recommender.DefaultHalfLife)
		for _, sample := range samples {
			require.NoError(t, history.AddCPU(sample.Time, sample.CPU))
			require.NoError(t, history.AddMemory(sample.Time, sample.Memory))
		}
		return history.Recommend(recommender.DefaultPolicy(1))
	}
	samples = slices.Clone(samples)
	recommendation := recommend()
	slices.Reverse(samples)
	require.Equal(t, recommendation, recommend())
	for range 3 {
		rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		require.Equal(t, recommendation, recommend())
	}
	return recommendation
}

// recommendMemory returns the memory target for one sample.
func recommendMemory(t *testing.T, at time.Time, used string) int64 {
	t.Helper()
	bytes := resource.MustParse(used)
	history := recommender.New(recommender.DefaultHalfLife)
	require.NoError(t, history.AddMemory(at, bytes.Value()))
	return history.Recommend(recommender.DefaultPolicy(1)).Memory.Target
}

// readBothWays returns the errors of Read and of History. It requires that there are no samples.
func readBothWays(t *testing.T, source *usage.Prometheus, namespace string) []error {
	t.Helper()
	samples, err := source.Read(t.Context())
	assert.Empty(t, samples)
	errs := []error{err}
	now := time.Now()
	for sample, err := range source.History(t.Context(), namespace, ".*", usage.Range{From: now, To: now, Step: time.Second}) {
		assert.Zero(t, sample)
		errs = append(errs, err)
	}
	assert.Len(t, errs, 2)
	return errs
}

// requireAdvice requires that the advice of an error has all these parts.
func requireAdvice(t *testing.T, err error, parts ...string) {
	t.Helper()
	var failure *usage.Error
	require.ErrorAs(t, err, &failure, fmt.Sprint(err))
	for _, part := range parts {
		require.Contains(t, failure.Advice, part)
	}
}
