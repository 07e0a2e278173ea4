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

// usageWindow is short, so that a change of usage shows soon; the server scrapes every second.
const usageWindow = 10 * time.Second

// TestUsageIsReadFromPrometheus goes through all that is read from a Prometheus on one server.
// The subtests at the end stop it.
func TestUsageIsReadFromPrometheus(t *testing.T) {
	t.Parallel()
	began := time.Now()
	namespace := newNamespace(t)
	deployment := newDeployment(namespace, "web", 2)
	deployment.Spec.Template.Annotations = usageAnnotations("400m", "300Mi")
	create(t, deployment)
	past := newPast(namespace)
	server := startPrometheus(t, past.write)
	source := prometheusSource(t, server, usage.PrometheusConfig{Window: usageWindow, Namespaces: []string{"none-such", namespace}})

	t.Run("Read has a container's CPU from the first sample on", func(t *testing.T) {
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

	t.Run("Read returns each container's CPU, memory and time of the scrape", func(t *testing.T) {
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

	t.Run("Read follows one pod's usage", func(t *testing.T) {
		pods := ownedPods(t, deployment)
		edit(t, &pods[0], func(pod *corev1.Pod) { pod.Annotations = usageAnnotations("900m", "700Mi") })

		eventually(t, func(c *assert.CollectT) {
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			requireUsage(c, samples, &pods[0], "900m", "700Mi")
			requireUsage(c, samples, &pods[1], "400m", "300Mi")
		})
	})

	t.Run("History of the time watched makes the same recommendation in any order", func(t *testing.T) {
		samples := historyOf(t, source, namespace, "web-.*", usage.Range{From: began, To: time.Now(), Step: time.Second})

		recommendation := recommendInAnyOrder(t, samples)

		assert.Equal(t, int64(len(samples)), recommendation.Samples)
		assert.Equal(t, recommendMemory(t, began, "700Mi"), recommendation.Memory.Target, "of the highest usage")
		assert.Greater(t, recommendation.CPU.Target, int64(400))
		for _, sample := range samples {
			assert.Greater(t, sample.CPU, 0.3, "no sample of a part of the window: %v", sample)
		}
	})

	t.Run("History ends with a pod, as Read does", func(t *testing.T) {
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

	t.Run("History of past days is what was measured, sample for sample", func(t *testing.T) {
		source := prometheusSource(t, server, usage.PrometheusConfig{Window: 2 * pastStep})
		want := past.samples()

		got := historyOf(t, source, namespace, "past-[0-9]", usage.Range{From: past.from, To: past.at(pastSteps), Step: pastStep})

		for i := range min(len(want), len(got)) {
			require.InDelta(t, want[i].CPU, got[i].CPU, 1e-6, "at %v", want[i].Time)
			got[i].CPU, got[i].Time = want[i].CPU, got[i].Time.UTC()
			require.Equal(t, want[i], got[i])
		}
		if len(got) != len(want) { // There are too many to print them.
			require.Fail(t, "wrong number of samples", "%d and not %d", len(got), len(want))
		}
		recommendInAnyOrder(t, got)
	})

	t.Run("History has a container's CPU from the first sample on, also after a restart", func(t *testing.T) {
		const windowSteps = 10
		source := prometheusSource(t, server, usage.PrometheusConfig{Window: windowSteps * pastStep})

		got := historyOf(t, source, namespace, "restarted-0", usage.Range{From: past.from, To: past.at(restartedSteps - 1), Step: pastStep})

		assert.Len(t, got, restartedSteps-2*windowSteps)
		for _, sample := range got {
			assert.InDelta(t, 1, sample.CPU, 1e-6, "at %v", sample.Time)
		}
	})

	t.Run("a Prometheus that is stopped is unavailable", func(t *testing.T) {
		require.NoError(t, server.Stop(t.Context()))

		for _, err := range readBothWays(t, source, namespace) {
			require.ErrorIs(t, err, usage.ErrUnavailable)
			requireAdvice(t, err, "Prometheus at "+server.URL()+" cannot be reached, check --prometheus-url and the network in between")
		}
	})

	t.Run("a Prometheus whose limits are too small refuses the query", func(t *testing.T) {
		require.NoError(t, server.Start(t.Context(), "--query.max-samples=1"))

		for _, err := range readBothWays(t, source, namespace) {
			require.NotErrorIs(t, err, usage.ErrUnavailable)
			requireAdvice(t, err, "Prometheus at "+server.URL()+" refuses the query, see its limits (--query.max-samples) and its log")
		}
	})

	t.Run("a Prometheus that is back at its address is read again", func(t *testing.T) {
		require.NoError(t, server.Stop(t.Context()))
		require.NoError(t, server.Start(t.Context()))

		eventually(t, func(c *assert.CollectT) {
			samples, err := source.Read(context.Background())
			require.NoError(c, err)
			require.Len(c, samples, 2)
		})
	})
}

// startPrometheus starts a server that scrapes the cluster's nodes and knows the past.
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

func prometheusSource(t *testing.T, server *prometheus.Server, config usage.PrometheusConfig) *usage.Prometheus {
	t.Helper()
	config.URL = server.URL()
	source, err := usage.NewPrometheus(config)
	require.NoError(t, err)
	return source
}

// usageAnnotations make a simulated pod's containers use so much each.
func usageAnnotations(cpu, memory string) map[string]string {
	return map[string]string{"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}
}

// requireUsage requires that a pod's only container uses so much. A rate is over whole scrapes
// and so not exact.
func requireUsage(t require.TestingT, samples []usage.Sample, pod *corev1.Pod, cpu, memory string) {
	of := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	i := slices.IndexFunc(samples, func(s usage.Sample) bool { return s.Pod == of && s.Container == "other" })
	require.GreaterOrEqual(t, i, 0, "pod %s has no sample", pod.Name)
	cores, bytes := resource.MustParse(cpu), resource.MustParse(memory)
	require.InEpsilon(t, cores.AsApproximateFloat64(), samples[i].CPU, 0.05)
	require.Equal(t, bytes.Value(), samples[i].Memory)
	require.WithinDuration(t, time.Now(), samples[i].Time, usageWindow)
	require.Equal(t, usageWindow, samples[i].Window)
}

// historyOf returns the usable samples that there must be.
func historyOf(t *testing.T, source usage.Historian, namespace, pods string, span usage.Range) []usage.Sample {
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

// recommendInAnyOrder returns the recommendation that the samples make, and requires it to be
// the same in other orders.
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

// recommendMemory returns the target of a container that was seen to use so much memory.
func recommendMemory(t *testing.T, at time.Time, used string) int64 {
	t.Helper()
	bytes := resource.MustParse(used)
	history := recommender.New(recommender.DefaultHalfLife)
	require.NoError(t, history.AddMemory(at, bytes.Value()))
	return history.Recommend(recommender.DefaultPolicy(1)).Memory.Target
}

// readBothWays returns the errors of Read and of History, without which there are no samples.
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

func requireAdvice(t *testing.T, err error, advice string) {
	t.Helper()
	var failure *usage.Error
	require.ErrorAs(t, err, &failure, fmt.Sprint(err))
	require.Equal(t, advice, failure.Advice)
}
