package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestSizesShowPodsWithTheirChartAndRecommendation(t *testing.T) {
	deleted := newPod("web-0", "web", requirements("20m", "128Mi", "200m", "256Mi"))
	deleted.DeletionTimestamp = new(metav1.Now())
	pods := []corev1.Pod{
		deleted,
		newPod("web-1", "web", requirements("226m", "284Mi", "2260m", "568Mi")),
		newPod("api-1", "api", requirements("1", "1Gi", "1", "1Gi")),
	}
	var out strings.Builder

	err := printSizes(&out, []autoscalingv1beta1.VerticalScaler{newScaler()},
		[]appsv1.Deployment{newDeployment("api"), newDeployment("web")}, pods)

	require.NoError(t, err)
	assert.Equal(t, `
  POD     CONTAINER   RESOURCE   BEFORE (CHART)   AFTER (NOW)     RECOMMENDED   LOWER BOUND   UPPER BOUND   RESTARTS
  web-1   main        cpu        20m / 200m       226m / 2260m    226m          25m           -             3
  web-1   main        memory     128Mi / 256Mi    284Mi / 568Mi   284Mi         -             -             3

  A size is request / limit.
  VerticalScaler web, Sized: All pods have the size.
`, "\n"+out.String())
}

func newScaler() autoscalingv1beta1.VerticalScaler {
	target := requirements("226m", "284Mi", "", "").Requests
	return autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"},
		Status: autoscalingv1beta1.VerticalScalerStatus{
			Recommendations: []autoscalingv1beta1.ContainerRecommendation{{
				ContainerName: "main", Target: target,
				LowerBound: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("25m")},
			}},
			Conditions: []metav1.Condition{
				{Type: "Ready", Reason: "Recommended"}, {Type: "Applied", Reason: "Sized", Message: "All pods have the size."},
			},
		},
	}
}

// newDeployment returns a Deployment like that of a chart.
func newDeployment(name string) appsv1.Deployment {
	deployment := appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	deployment.Spec.Replicas = new(int32(2))
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "main", Image: "main:1", Resources: requirements("20m", "128Mi", "200m", "256Mi")},
	}
	return deployment
}

func newPod(name, app string, resources corev1.ResourceRequirements) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: resources}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 3}}},
	}
}

// requirements returns requests and, unless they are empty, limits.
func requirements(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	amounts := func(cpu, memory string) corev1.ResourceList {
		if cpu == "" {
			return nil
		}
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return corev1.ResourceRequirements{Requests: amounts(cpu, memory), Limits: amounts(cpuLimit, memoryLimit)}
}
