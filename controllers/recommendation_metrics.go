package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// scrapeTimeout bounds the look into the cache that a scrape takes.
const scrapeTimeout = 5 * time.Second

// recommendationMetrics tells, whenever it is scraped, what the scalers' status recommends and
// what the pods request. Nothing has to be kept for it, nor forgotten.
type recommendationMetrics struct {
	collector *UsageCollector
	leading   <-chan struct{} // Closed when this manager leads: of several, one tells.

	recommended, requested map[corev1.ResourceName]*prometheus.Desc
}

func newRecommendationMetrics(collector *UsageCollector, leading <-chan struct{}) *recommendationMetrics {
	labels := []string{"namespace", "verticalscaler", "deployment", "container"}
	describe := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, slices.Concat(labels, more), nil)
	}
	return &recommendationMetrics{
		collector: collector, leading: leading,
		recommended: map[corev1.ResourceName]*prometheus.Desc{
			corev1.ResourceCPU: describe("upright_recommendation_cpu_cores",
				"CPU that a container should request: target, lower or upper bound.", "figure"),
			corev1.ResourceMemory: describe("upright_recommendation_memory_bytes",
				"Memory that a container should request: target, lower or upper bound.", "figure"),
		},
		requested: map[corev1.ResourceName]*prometheus.Desc{
			corev1.ResourceCPU:    describe("upright_container_request_cpu_cores", "CPU that a container of the newest pod requests."),
			corev1.ResourceMemory: describe("upright_container_request_memory_bytes", "Memory that a container of the newest pod requests."),
		},
	}
}

// Describe sends the descriptions of all metrics.
func (m *recommendationMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		descriptions <- m.recommended[resource]
		descriptions <- m.requested[resource]
	}
}

// Collect sends the metrics of all scalers.
func (m *recommendationMetrics) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-m.leading:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	scalers, err := m.collector.scalers(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(m.recommended[corev1.ResourceCPU], err)
		return
	}
	for i := range scalers {
		m.collectRecommended(&scalers[i], metrics)
		if err := m.collectRequested(ctx, &scalers[i], metrics); err != nil {
			metrics <- prometheus.NewInvalidMetric(m.requested[corev1.ResourceCPU], err)
		}
	}
}

func (m *recommendationMetrics) collectRecommended(scaler *autoscalingv1beta1.VerticalScaler, metrics chan<- prometheus.Metric) {
	for i := range scaler.Status.Recommendations {
		recommendation := &scaler.Status.Recommendations[i]
		for figure, amounts := range map[string]corev1.ResourceList{
			"target": recommendation.Target, "lower": recommendation.LowerBound, "upper": recommendation.UpperBound,
		} {
			m.send(metrics, m.recommended, amounts,
				scaler.Namespace, scaler.Name, scaler.Spec.DeploymentName, recommendation.ContainerName, figure)
		}
	}
}

func (m *recommendationMetrics) collectRequested(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, metrics chan<- prometheus.Metric,
) error {
	pods, err := podsOf(ctx, m.collector.cache, scaler)
	if err != nil {
		return err
	}
	pod := newest(pods)
	if pod == nil {
		return nil
	}
	for _, container := range sizable(pod) {
		m.send(metrics, m.requested, container.Resources.Requests,
			scaler.Namespace, scaler.Name, scaler.Spec.DeploymentName, container.Name)
	}
	return nil
}

// send sends a gauge of each resource in a list.
func (*recommendationMetrics) send(
	metrics chan<- prometheus.Metric, descriptions map[corev1.ResourceName]*prometheus.Desc, amounts corev1.ResourceList, labels ...string,
) {
	for resource, description := range descriptions {
		if amount, isSet := amounts[resource]; isSet {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, amount.AsApproximateFloat64(), labels...)
		}
	}
}
