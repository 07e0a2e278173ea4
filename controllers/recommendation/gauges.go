package recommendation

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// scrapeTimeout bounds the reads from the cache during a scrape.
const scrapeTimeout = 5 * time.Second

// gauges collects the recommendations and the pods' requests from the cache at each scrape, so
// that no gauge has to be updated or deleted.
type gauges struct {
	recommender *Recommender
	elected     <-chan struct{} // Closed when this manager leads. Only the leader exports gauges.

	recommended, requested map[corev1.ResourceName]*prometheus.Desc
}

func newGauges(recommender *Recommender, elected <-chan struct{}) *gauges {
	labels := []string{"namespace", "verticalscaler", "deployment", "container"}
	describe := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, slices.Concat(labels, more), nil)
	}
	return &gauges{
		recommender: recommender, elected: elected,
		recommended: map[corev1.ResourceName]*prometheus.Desc{
			corev1.ResourceCPU: describe("upright_recommendation_cpu_cores",
				"CPU request that is recommended for a container: target, lower or upper bound.", "figure"),
			corev1.ResourceMemory: describe("upright_recommendation_memory_bytes",
				"Memory request that is recommended for a container: target, lower or upper bound.", "figure"),
		},
		requested: map[corev1.ResourceName]*prometheus.Desc{
			corev1.ResourceCPU:    describe("upright_container_request_cpu_cores", "CPU request of a container of the newest pod."),
			corev1.ResourceMemory: describe("upright_container_request_memory_bytes", "Memory request of a container of the newest pod."),
		},
	}
}

// Describe sends the descriptions of all metrics.
func (g *gauges) Describe(descriptions chan<- *prometheus.Desc) {
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		descriptions <- g.recommended[resource]
		descriptions <- g.requested[resource]
	}
}

// Collect sends the metrics of all scalers.
func (g *gauges) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-g.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	scalers, err := g.recommender.scalers(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(g.recommended[corev1.ResourceCPU], err)
		return
	}
	for i := range scalers {
		g.collectRecommended(&scalers[i], metrics)
		if err := g.collectRequested(ctx, &scalers[i], metrics); err != nil {
			metrics <- prometheus.NewInvalidMetric(g.requested[corev1.ResourceCPU], err)
		}
	}
}

func (g *gauges) collectRecommended(scaler *autoscalingv1beta1.VerticalScaler, metrics chan<- prometheus.Metric) {
	for i := range scaler.Status.Recommendations {
		recommendation := &scaler.Status.Recommendations[i]
		for figure, amounts := range map[string]corev1.ResourceList{
			"target": recommendation.Target, "lower": recommendation.LowerBound, "upper": recommendation.UpperBound,
		} {
			g.send(metrics, g.recommended, amounts,
				scaler.Namespace, scaler.Name, scaler.Spec.DeploymentName, recommendation.ContainerName, figure)
		}
	}
}

func (g *gauges) collectRequested(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, metrics chan<- prometheus.Metric,
) error {
	targetPods, err := TargetPods(ctx, g.recommender.cache, scaler)
	if err != nil {
		return err
	}
	pod := pods.Newest(targetPods)
	if pod == nil {
		return nil
	}
	for _, container := range pods.Sizable(&pod.Spec) {
		g.send(metrics, g.requested, container.Resources.Requests,
			scaler.Namespace, scaler.Name, scaler.Spec.DeploymentName, container.Name)
	}
	return nil
}

// send sends a gauge for each resource in a list.
func (*gauges) send(
	metrics chan<- prometheus.Metric, descriptions map[corev1.ResourceName]*prometheus.Desc, amounts corev1.ResourceList, labels ...string,
) {
	for resource, description := range descriptions {
		if amount, isSet := amounts[resource]; isSet {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, amount.AsApproximateFloat64(), labels...)
		}
	}
}
