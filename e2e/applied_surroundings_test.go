package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// newUtilizationHPA returns an autoscaler that keeps a Deployment at so many pods, whose CPU
// utilization it looks at.
func newUtilizationHPA(namespace, deployment string, replicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "wide"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			MinReplicas:    &replicas, MaxReplicas: replicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))},
				},
			}},
		},
	}
}

// statusIs looks at the status of the scaler that an event is of.
func statusIs(t *testing.T, looksRight func(autoscalingv1beta1.VerticalScalerStatus) bool) func(watch.Event) bool {
	return func(e watch.Event) bool {
		scaler, ok := e.Object.(*autoscalingv1beta1.VerticalScaler)
		require.True(t, ok)
		return looksRight(scaler.Status)
	}
}

// It measures how soon Upright answers, so it is not parallel.
func TestAResourceIsLeftToAnHPAWithinASecond(t *testing.T) {
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 2, "Granted"))
	scaler := create(t, newPromptScaler(namespace, "web"))
	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	statuses := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, namespace)
	says := func(reason string) func(watch.Event) bool {
		return statusIs(t, func(status autoscalingv1beta1.VerticalScalerStatus) bool {
			applied := meta.FindStatusCondition(status.Conditions, autoscalingv1beta1.ConditionApplied)
			return applied != nil && applied.Reason == reason
		})
	}
	delays := delays{}
	hpa := newUtilizationHPA(namespace, "web", 2)
	for range rounds {
		start := time.Now()
		create(t, hpa.DeepCopy())
		delays.add("a resource is left to an HPA", await(t, statuses, says("HPAOnSameResource")).Sub(start))
		start = time.Now()
		remove(t, hpa)
		delays.add("a resource is taken from a deleted HPA", await(t, statuses, says("Sized")).Sub(start))
	}
	delays.check(t)

	create(t, hpa)
	becomesApplied(t, scaler, metav1.ConditionTrue, "HPAOnSameResource")
	assert.Contains(t, conditionMessage(scaler, "Applied"), `cpu is left to HorizontalPodAutoscaler "wide"`)
	requireResources(t, sized, podsIn(t, namespace))
	left := charted.DeepCopy()
	left.Requests[corev1.ResourceMemory], left.Limits[corev1.ResourceMemory] = *sized.Requests.Memory(), *sized.Limits.Memory()
	requireResources(t, *left, replacePods(t, deployment))
}

// It measures how soon Upright answers, so it is not parallel.
func TestALimitRangeIsKeptToWithinASecond(t *testing.T) {
	namespace := newNamespace(t)
	create(t, newChartedDeployment(namespace, 2, "Granted"))
	scaler := create(t, newPromptScaler(namespace, "web"))
	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	statuses := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, namespace)
	requests := func(cpu string) func(watch.Event) bool {
		return statusIs(t, func(status autoscalingv1beta1.VerticalScalerStatus) bool {
			return len(status.Sizing) == 1 && status.Sizing[0].Requests.Cpu().String() == cpu
		})
	}
	delays := delays{}
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("222m")}},
		}},
	}
	for range rounds {
		start := time.Now()
		create(t, limits.DeepCopy())
		delays.add("a LimitRange is kept to", await(t, statuses, requests("222m")).Sub(start))
		start = time.Now()
		remove(t, limits)
		delays.add("a deleted LimitRange is not kept to", await(t, statuses, requests(sized.Requests.Cpu().String())).Sub(start))
	}
	delays.check(t)
}
