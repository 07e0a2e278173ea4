package recommendation_test

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

	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

func TestMetricsCountSamplesByOutcome(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.3, 300, 3)
	stale, unusable, unknown := samples[0], samples[0], samples[0]
	stale.Container, stale.Time = "paused", stale.Time.Add(-24*time.Hour)
	unusable.Memory = -1
	unknown.Pod.Name = "unknown"
	var source testenv.Meter
	source.Set(append(slices.Clone(samples), stale, unusable, unknown)...)
	options := newOptions()
	options.Interval = time.Hour // There is one reading.
	m := startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source})
	waitForReady(t, scaler, isTrue, "Recommended")
	for name, want := range map[string]float64{
		"upright_usage_samples_read_total":       6,
		"upright_usage_samples_attributed_total": 3,
		"upright_usage_cycle_duration_seconds":   1,
		"upright_usage_read_failures_total":      0,
		"upright_oom_kills_total":                0,
	} {
		assert.InDelta(t, want, m.Value(t, name), 0, name)
	}
	for reason, want := range map[string]float64{"stale": 1, "unusable": 1, "unattributed": 1, "seen": 0} {
		assert.InDelta(t, want, m.Value(t, "upright_usage_samples_dropped_total", reason), 0, reason)
	}
	before := time.Since(samples[2].Time).Seconds()
	age := m.Value(t, "upright_usage_newest_sample_age_seconds")
	assert.GreaterOrEqual(t, age, before)
	assert.LessOrEqual(t, age, time.Since(samples[2].Time).Seconds())
}

func TestMetricsCountAndTimeFailedReadings(t *testing.T) {
	t.Parallel()
	var source testenv.Meter
	source.Fail(errUnavailable)
	m := startManager(t, env.Namespace(t), &source)
	source.WaitUntilLearned(t)
	failures := m.Value(t, "upright_usage_read_failures_total")
	assert.GreaterOrEqual(t, failures, 2.0)
	assert.GreaterOrEqual(t, m.Value(t, "upright_usage_cycle_duration_seconds"), failures-1)
	assert.Zero(t, m.Value(t, "upright_usage_samples_read_total"))
	assert.Zero(t, m.Value(t, "upright_usage_newest_sample_age_seconds"))
}

func TestGaugesShowRecommendationsAndRequests(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app", "log")
	setContainers(t, testenv.NewDeployment(namespace, "web"), "app", "log")
	var source testenv.Meter
	source.Set(slices.Concat(testenv.SteadyUsage(pod, "app", 0.3, 700, 3), testenv.SteadyUsage(pod, "log", 0.1, 50, 3))...)
	m := startManager(t, namespace, &source)
	status := waitForReady(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return len(m.Series(t, "upright_recommendation_cpu_cores")) > 0 }, testenv.Timeout, testenv.Poll)
	for _, published := range status.Recommendations {
		container := published.ContainerName
		for figure, amounts := range map[string]corev1.ResourceList{
			"target": published.Target, "lower": published.LowerBound, "upper": published.UpperBound,
		} {
			labels := []string{namespace, "web", container, figure}
			assert.InDelta(t, amounts.Cpu().AsApproximateFloat64(), m.Value(t, "upright_recommendation_cpu_cores", labels...), 1e-9, labels)
			assert.InDelta(t, amounts.Memory().AsApproximateFloat64(), m.Value(t, "upright_recommendation_memory_bytes", labels...), 0, labels)
		}
		assert.InDelta(t, 0.1, m.Value(t, "upright_container_request_cpu_cores", container), 1e-9)
		assert.InDelta(t, requestedMemory, m.Value(t, "upright_container_request_memory_bytes", container), 0)
	}
	assert.Equal(t, map[string]string{
		"namespace": namespace, "verticalscaler": "web", "deployment": "web", "container": "app",
	}, labelsOf(m.Series(t, "upright_container_request_cpu_cores")[0]))
	assert.Equal(t, []string{"container", "deployment", "figure", "namespace", "verticalscaler"},
		slices.Sorted(maps.Keys(labelsOf(m.Series(t, "upright_recommendation_cpu_cores")[0]))))

	testenv.Delete(t, env, pod)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, m.Series(c, "upright_container_request_cpu_cores"))
		assert.Len(c, m.Series(c, "upright_recommendation_cpu_cores"), 6, "the recommendations stay")
	}, testenv.Timeout, testenv.Poll)
	testenv.Delete(t, env, scaler)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, m.Series(c, "upright_recommendation_cpu_cores"))
	}, testenv.Timeout, testenv.Poll)
}

func labelsOf(metric *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, pair := range metric.GetLabel() {
		all[pair.GetName()] = pair.GetValue()
	}
	return all
}

func TestAllMetricsAreExportedFromTheStartAndDocumented(t *testing.T) {
	t.Parallel()
	m := startManager(t, env.Namespace(t), &testenv.Meter{})
	families, err := m.Metrics.Gather()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "manager.md"))
	require.NoError(t, err)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
		assert.NotEmpty(t, family.GetHelp(), family.GetName())
		if strings.HasPrefix(family.GetName(), "upright_") {
			assert.Regexp(t, "`"+family.GetName()+"[`{]", string(page))
		}
	}
	// The gauges are missing because there are no recommendations.
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
	for _, metric := range m.Series(t, "upright_usage_samples_dropped_total") {
		reasons = append(reasons, metric.GetLabel()[0].GetValue())
	}
	assert.ElementsMatch(t, []string{"seen", "stale", "unusable", "unattributed"}, reasons)
}
