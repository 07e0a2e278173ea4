package sizing

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAResourceIsLeftToTheHorizontalPodAutoscalerThatScalesByItsUtilization(t *testing.T) {
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
	ofContainer := autoscalingv2.MetricSpec{ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: corev1.ResourceMemory, Container: "app", Target: utilization}}
	external := autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{Target: utilization}}
	type left = map[corev1.ResourceName]string
	for name, test := range map[string]struct {
		hpas []autoscalingv2.HorizontalPodAutoscaler
		want left
	}{
		"none":                            {nil, left{}},
		"of a resource":                   {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization))}, left{"cpu": "a"}},
		"of a resource of one container":  {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", ofContainer)}, left{"memory": "a"}},
		"of both resources":               {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization), ofContainer)}, left{"cpu": "a", "memory": "a"}},
		"none that scales by the usage":   {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", value))}, left{}},
		"none that scales by other means": {[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", external)}, left{}},
		"one for each resource": {
			[]autoscalingv2.HorizontalPodAutoscaler{hpa("a", pods("cpu", utilization)), hpa("b", pods("memory", utilization))},
			left{"cpu": "a", "memory": "b"}},
		"the first of several": {
			[]autoscalingv2.HorizontalPodAutoscaler{hpa("c", pods("cpu", utilization)), hpa("a", pods("cpu", value)), hpa("b", pods("cpu", utilization))},
			left{"cpu": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, Horizontal(test.hpas))
			slices.Reverse(test.hpas)
			assert.Equal(t, test.want, Horizontal(test.hpas), "in the opposite order")
		})
	}
}
