package sizing

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestScaledByHPAReturnsResourcesScaledOnUtilization(t *testing.T) {
	t.Parallel()
	hpa := func(name string, metrics ...autoscalingv2.MetricSpec) autoscalingv2.HorizontalPodAutoscaler {
		h := autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: metrics}}
		h.Name = name
		return h
	}
	utilization := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(1, resource.DecimalSI)}
	pods := func(name corev1.ResourceName, target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: target}}
	}
	perContainer := autoscalingv2.MetricSpec{ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: corev1.ResourceMemory, Container: "app", Target: utilization}}
	external := autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{Target: utilization}}
	type scaled = map[corev1.ResourceName]string
	for name, test := range map[string]struct {
		hpas []autoscalingv2.HorizontalPodAutoscaler
		want scaled
	}{
		"no HPA":                      {nil, scaled{}},
		"one resource":                {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization))}, scaled{"cpu": "a"}},
		"one resource of a container": {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", perContainer)}, scaled{"memory": "a"}},
		"both resources":              {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization), perContainer)}, scaled{"cpu": "a", "memory": "a"}},
		"usage, not utilization":      {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", value))}, scaled{}},
		"external metric":             {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", external)}, scaled{}},
		"different HPAs per resource": {
			[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization)), hpa("b", pods("memory", utilization))},
			scaled{"cpu": "a", "memory": "b"}},
		"several HPAs: first name": {
			[]autoscalingv2.HorizontalPodAutoscaler{hpa("c", pods("cpu", utilization)), hpa("a", pods("cpu", value)), hpa("b", pods("cpu", utilization))},
			scaled{"cpu": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, ScaledByHPA(test.hpas))
			slices.Reverse(test.hpas)
			assert.Equal(t, test.want, ScaledByHPA(test.hpas), "in reverse order")
		})
	}
}
