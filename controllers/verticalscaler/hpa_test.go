package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// newHPA returns a HorizontalPodAutoscaler that scales Deployment "web" on the utilization of
// resources.
func newHPA(namespace string, resources ...corev1.ResourceName) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MaxReplicas:    9,
		},
	}
	for _, resource := range resources {
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   resource,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))},
			},
		})
	}
	return hpa
}

func TestSizingLeavesOutResourcesThatAnHPAScalesOn(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	pod := w.pods[0]
	hpa := testenv.Create(t, env, newHPA(w.namespace, corev1.ResourceCPU))
	w.start(t).waitForSizing(t, newSizing("web", only(corev1.ResourceMemory, large), nil))
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), testenv.Amounts("100m", "1Gi"), nil)
	w.waitForResources(t, pod, 0, testenv.Amounts("100m", "1Gi"), nil)
	testenv.RunPod(t, env, pod)
	assert.Contains(t, w.waitForApplied(t, isTrue, "HPAOnSameResource"),
		`cpu is not sized because HorizontalPodAutoscaler "hpa" scales on its utilization`)
	assert.Equal(t, 1, w.resizes())

	testenv.Delete(t, env, hpa)
	w.waitForSizing(t, newSizing("web", large, nil))
	w.waitForResources(t, pod, 0, large, nil)
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")

	hpa = testenv.Create(t, env, newHPA(w.namespace, corev1.ResourceMemory))
	w.waitForApplied(t, isTrue, "HPAOnSameResource")
	w.waitForSizing(t, newSizing("web", only(corev1.ResourceCPU, large), nil))
	testenv.Edit(t, env, hpa, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Name = "other" })
	w.waitForApplied(t, isTrue, "Sized")
}

// TestSizingLeavesOutResourcesThatAnHPAScalesThroughTheController uses an HPA that scales the
// object that controls the Deployment.
func TestSizingLeavesOutResourcesThatAnHPAScalesThroughTheController(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	controller := metav1.OwnerReference{
		APIVersion: "example.com/v1alpha1", Kind: "Busybox", Name: "box", UID: "of-the-busybox", Controller: new(true),
	}
	setControllers := func(references ...metav1.OwnerReference) {
		testenv.Edit(t, env, testenv.WaitForDeployment(t, env, w.namespace, "web"), func(d *appsv1.Deployment) { d.OwnerReferences = references })
	}
	scaling := func(name string) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := newHPA(w.namespace, corev1.ResourceCPU)
		hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1alpha1", Kind: "Busybox", Name: name}
		return hpa
	}
	all, withoutCPU := newSizing("web", large, nil), newSizing("web", only(corev1.ResourceMemory, large), nil)
	setControllers(controller)
	hpa := testenv.Create(t, env, scaling("box"))
	w.start(t).waitForSizing(t, withoutCPU)
	testenv.Delete(t, env, hpa)
	w.waitForSizing(t, all)
	hpa = testenv.Create(t, env, scaling("other"))
	testenv.Edit(t, env, hpa, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Name = "box" })
	w.waitForSizing(t, withoutCPU)
	setControllers()
	w.waitForSizing(t, all)
	setControllers(controller)
	w.waitForSizing(t, withoutCPU)
}

func TestSizingIsEmptyIfAnHPAScalesOnAllResources(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	testenv.Create(t, env, newHPA(w.namespace, corev1.ResourceCPU, corev1.ResourceMemory))
	assert.Contains(t, w.start(t).waitForApplied(t, isFalse, "HPAOnSameResource"), "There is no resource to size")
	w.waitForSizing(t)
	assert.Zero(t, w.resizes())
}

func TestRunningPodKeepsTheCPUItHasWhenAnHPAStartsToScaleOnIt(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, limits)}).start(t)
	pod := w.pods[0]
	w.waitForResources(t, pod, 0, large, huge)
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")

	hpa := testenv.Create(t, env, newHPA(w.namespace, corev1.ResourceCPU))
	w.waitForApplied(t, isTrue, "HPAOnSameResource")
	w.waitForNewPod(t, w.newPod(newContainer("web", small, limits)), testenv.Amounts("100m", "1Gi"), testenv.Amounts("200m", "2Gi"))
	w.assertResizes(t, 1)
	w.waitForResources(t, pod, 0, large, huge)

	testenv.Delete(t, env, hpa)
	w.waitForApplied(t, isTrue, "Sized")
	w.waitForNewPod(t, w.newPod(newContainer("web", small, limits)), large, huge)
	w.assertResizes(t, 1)
}

func TestHistoryIsReportedBesideAnHPA(t *testing.T) {
	t.Parallel()
	s := trialScope(autoscalingv1beta1.VerticalScalerStatus{}, noon, small, 1)
	s.scaledByHPA = map[corev1.ResourceName]string{corev1.ResourceCPU: "hpa"}
	s.setSizing()
	applied := s.applied()
	assert.Equal(t, "InsufficientHistory", applied.Reason)
	assert.Contains(t, applied.Message, `cpu is not sized because HorizontalPodAutoscaler "hpa" scales on its utilization`)
}
