package controllers

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheCollectorsMetricsTellWhatBecameOfTheSamples(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.3, 300, 3)
	stale, unusable, nobodys := samples[0], samples[0], samples[0]
	stale.Container, stale.Time = "paused", stale.Time.Add(-24*time.Hour)
	unusable.Memory = -1
	nobodys.Pod.Name = "nobodys"
	var source meter
	source.show(append(slices.Clone(samples), stale, unusable, nobodys)...)
	options := newOptions()
	options.Usage.Interval = time.Hour // One reading.
	m := startManagerWith(t, namespace, options, usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	for name, want := range map[string]float64{
		"upright_usage_samples_read_total":       6,
		"upright_usage_samples_attributed_total": 3,
		"upright_usage_cycle_duration_seconds":   1,
		"upright_usage_read_failures_total":      0,
		"upright_oom_kills_total":                0,
	} {
		assert.InDelta(t, want, value(t, m, name), 0, name)
	}
	for reason, want := range map[string]float64{"stale": 1, "unusable": 1, "unattributed": 1, "seen": 0} {
		assert.InDelta(t, want, value(t, m, "upright_usage_samples_dropped_total", reason), 0, reason)
	}
	age := value(t, m, "upright_usage_newest_sample_age_seconds")
	assert.InDelta(t, time.Since(samples[2].Time).Seconds(), age, 1)
}

func TestReadingsThatFailAreCountedAndTimedToo(t *testing.T) {
	t.Parallel()
	var source meter
	source.fail(errNoUsage)
	m := startManagerWith(t, env.Namespace(t), newOptions(), usageSource{Source: &source})
	source.settle(t)
	failures := value(t, m, "upright_usage_read_failures_total")
	assert.GreaterOrEqual(t, failures, 2.0)
	assert.GreaterOrEqual(t, value(t, m, "upright_usage_cycle_duration_seconds"), failures-1)
	assert.Zero(t, value(t, m, "upright_usage_samples_read_total"))
	assert.Zero(t, value(t, m, "upright_usage_newest_sample_age_seconds"))
}

func TestGaugesShowWhatIsRecommendedAndWhatIsRequested(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app", "log")
	var source meter
	source.show(slices.Concat(uses(pod, "app", 0.3, 700, 3), uses(pod, "log", 0.1, 50, 3))...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	status := scalerIs(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return len(series(t, m, "upright_recommendation_cpu_cores")) > 0 }, soon, often)
	for _, recommended := range status.Recommendations {
		container := recommended.ContainerName
		for figure, amounts := range map[string]corev1.ResourceList{
			"target": recommended.Target, "lower": recommended.LowerBound, "upper": recommended.UpperBound,
		} {
			of := []string{namespace, "web", container, figure}
			assert.InDelta(t, amounts.Cpu().AsApproximateFloat64(), value(t, m, "upright_recommendation_cpu_cores", of...), 1e-9, of)
			assert.InDelta(t, amounts.Memory().AsApproximateFloat64(), value(t, m, "upright_recommendation_memory_bytes", of...), 0, of)
		}
		assert.InDelta(t, 0.1, value(t, m, "upright_container_request_cpu_cores", container), 1e-9)
		assert.InDelta(t, requestedMemory, value(t, m, "upright_container_request_memory_bytes", container), 0)
	}
	assert.Equal(t, map[string]string{
		"namespace": namespace, "verticalscaler": "web", "deployment": "web", "container": "app",
	}, labelsOf(series(t, m, "upright_container_request_cpu_cores")[0]))
	assert.Equal(t, []string{"container", "deployment", "figure", "namespace", "verticalscaler"},
		slices.Sorted(maps.Keys(labelsOf(series(t, m, "upright_recommendation_cpu_cores")[0]))))

	remove(t, pod)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, series(c, m, "upright_container_request_cpu_cores"))
		assert.Len(c, series(c, m, "upright_recommendation_cpu_cores"), 6, "which stay")
	}, soon, often)
	remove(t, scaler)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, series(c, m, "upright_recommendation_cpu_cores"))
	}, soon, often)
}

func labelsOf(metric *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, pair := range metric.GetLabel() {
		all[pair.GetName()] = pair.GetValue()
	}
	return all
}

func TestEveryMetricIsThereFromTheStartAndDocumented(t *testing.T) {
	t.Parallel()
	m := startManager(t, env.Namespace(t))
	families, err := m.metrics.Gather()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "docs", "manager.md"))
	require.NoError(t, err)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
		assert.NotEmpty(t, family.GetHelp(), family.GetName())
		if strings.HasPrefix(family.GetName(), "upright_") {
			assert.Regexp(t, "`"+family.GetName()+"[`{]", string(page))
		}
	}
	// But for the gauges of what there is to recommend.
	assert.Equal(t, []string{
		"upright_checkpoint_writes_total",
		"upright_map_failures_total",
		"upright_oom_kills_total",
		"upright_pod_resizes_total",
		"upright_refusals_total",
		"upright_rollouts_total",
		"upright_usage_cycle_duration_seconds",
		"upright_usage_newest_sample_age_seconds",
		"upright_usage_read_failures_total",
		"upright_usage_samples_attributed_total",
		"upright_usage_samples_dropped_total",
		"upright_usage_samples_read_total",
	}, slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "upright_") }))
	var reasons []string
	for _, metric := range series(t, m, "upright_usage_samples_dropped_total") {
		reasons = append(reasons, metric.GetLabel()[0].GetValue())
	}
	assert.ElementsMatch(t, []string{"seen", "stale", "unusable", "unattributed"}, reasons)
}
