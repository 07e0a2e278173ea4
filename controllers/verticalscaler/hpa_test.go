package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newHPA returns a HorizontalPodAutoscaler of a Deployment that scales by a resource's utilization.
func newHPA(namespace, deployment string, resource corev1.ResourceName) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "wide"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			MaxReplicas:    9,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   resource,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))},
				},
			}},
		},
	}
}

func TestAResourceThatAnHPAScalesByIsLeftToIt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)})
	hpa := create(t, newHPA(s.namespace, "web", corev1.ResourceCPU))
	s.open(t)
	memory := corev1.ResourceList{corev1.ResourceMemory: large[corev1.ResourceMemory]}
	s.sizing(t, size("web", memory, nil))
	s.born(t, s.newcomer(sells("web", small, nil)), amounts("100m", "1Gi"), nil)
	has(t, s.pods[0], 0, amounts("100m", "1Gi"), nil)
	runs(t, s.pods[0])
	assert.Contains(t, s.applied(t, isTrue, "HPAOnSameResource"), `cpu is left to HorizontalPodAutoscaler "wide"`)
	assert.Equal(t, 1, s.resizes())

	start := time.Now()
	remove(t, hpa)
	s.sizing(t, size("web", large, nil))
	has(t, s.pods[0], 0, large, nil)
	runs(t, s.pods[0])
	s.applied(t, isTrue, "Sized")
	assert.Less(t, time.Since(start), 2*time.Second)

	start = time.Now()
	hpa = create(t, newHPA(s.namespace, "web", corev1.ResourceMemory))
	s.applied(t, isTrue, "HPAOnSameResource")
	cpu := corev1.ResourceList{corev1.ResourceCPU: large[corev1.ResourceCPU]}
	s.sizing(t, size("web", cpu, nil))
	assert.Less(t, time.Since(start), 2*time.Second)
	edit(t, hpa, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Name = "other" })
	s.applied(t, isTrue, "Sized")
}

func TestWhereAnHPAScalesByAllThatIsSizedNothingIs(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)})
	hpa := newHPA(s.namespace, "web", corev1.ResourceCPU)
	hpa.Spec.Metrics = append(hpa.Spec.Metrics, newHPA("", "", corev1.ResourceMemory).Spec.Metrics...)
	create(t, hpa)
	s.open(t)
	assert.Contains(t, s.applied(t, isFalse, "HPAOnSameResource"), "Nothing is left to size")
	s.sizing(t)
	assert.Zero(t, s.resizes())
}
