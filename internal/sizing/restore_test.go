package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestRestoreLowersPodToTemplate(t *testing.T) {
	t.Parallel()
	requestsOnly := autoscalingv1beta1.ContainerPolicy{ControlledValues: autoscalingv1beta1.ControlledValuesRequestsOnly}
	for name, test := range map[string]struct {
		template, current, want corev1.Container
		ranges                  []corev1.LimitRange
		spec                    autoscalingv1beta1.VerticalScalerSpec
		sizes                   []autoscalingv1beta1.ContainerSizing
		resources               []corev1.ResourceName // All, if it is empty.
	}{
		"both resources": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("300m", "512Mi"), list("600m", "1Gi")),
			want:     container("app", list("100m", "128Mi"), list("200m", "256Mi"))},
		"one resource": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("300m", "64Mi"), list("600m", "128Mi")),
			want:     container("app", list("100m", "64Mi"), list("200m", "128Mi"))},
		"request that the template lacks": {
			template: container("app", list("", "128Mi"), nil),
			current:  container("app", list("300m", "512Mi"), nil),
			want:     container("app", list("25m", "128Mi"), nil)},
		"request that the template lacks, less than the pod minimum": {
			template: container("app", nil, nil), current: container("app", list("20m", "16Mi"), nil)},
		"request that the template lacks, pod minimum of the spec": {
			template: container("app", nil, nil),
			current:  container("app", list("300m", "512Mi"), nil),
			want:     container("app", list("50m", "250Mi"), nil),
			spec: autoscalingv1beta1.VerticalScalerSpec{
				Recommendation: &autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("50m", "0")}}},
		"mode Off": {
			template: container("app", list("100m", "128Mi"), nil), current: container("app", list("300m", "512Mi"), nil),
			spec: *specOf(autoscalingv1beta1.ContainerPolicy{Mode: autoscalingv1beta1.ContainerModeOff})},
		"controlled resource": {
			template: container("app", list("100m", "128Mi"), nil),
			current:  container("app", list("300m", "512Mi"), nil),
			want:     container("app", list("100m", "512Mi"), nil),
			spec: *specOf(autoscalingv1beta1.ContainerPolicy{
				ControlledResources: []autoscalingv1beta1.ControlledResource{"cpu"}})},
		"requests only": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("300m", "512Mi"), list("600m", "1Gi")),
			want:     container("app", list("100m", "128Mi"), list("600m", "1Gi")),
			spec:     *specOf(requestsOnly)},
		"requests only, Guaranteed pod": {
			template: container("app", list("100m", "128Mi"), list("100m", "128Mi")),
			current:  container("app", list("300m", "512Mi"), list("300m", "512Mi")),
			spec:     *specOf(requestsOnly)},
		"named resource": {
			template:  container("app", list("100m", "128Mi"), nil),
			current:   container("app", list("300m", "512Mi"), nil),
			want:      container("app", list("300m", "128Mi"), nil),
			resources: []corev1.ResourceName{corev1.ResourceMemory}},
		"size of new pods": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("300m", "512Mi"), list("600m", "1Gi")),
			want:     container("app", list("200m", "128Mi"), list("400m", "256Mi")),
			sizes:    []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("200m", ""), list("400m", ""))}},
		"template with LimitRange defaults": {
			template: container("app", nil, nil),
			current:  container("app", list("300m", ""), list("600m", "")),
			want:     container("app", list("50m", ""), list("100m", "")),
			ranges:   limitRanges(corev1.LimitRangeItem{Default: list("100m", ""), DefaultRequest: list("50m", "")})},
		"Guaranteed pod stays Guaranteed": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("300m", "512Mi"), list("300m", "512Mi")),
			want:     container("app", list("100m", "128Mi"), list("100m", "128Mi"))},
		"no resource exceeds the template": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			current:  container("app", list("100m", "64Mi"), list("200m", "256Mi"))},
		"container that the template lacks": {
			template: container("other", list("100m", "128Mi"), nil), current: container("app", list("300m", "512Mi"), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.current)
			before := pod.DeepCopy()
			pod.Status.QOSClass = qosClassAfter(pod, nil)
			before.Status.QOSClass = pod.Status.QOSClass
			restore := Restore{
				Spec: &test.spec, Template: &corev1.PodSpec{Containers: []corev1.Container{test.template}}, Sizes: test.sizes,
				Constraints: Constraints{LimitRanges: test.ranges}, Resources: test.resources,
			}
			if len(test.resources) == 0 {
				restore.Resources = AllResources()
			}
			got := restore.restored(pod)
			assert.Equal(t, before, pod, "the pod must not change")
			if test.want.Name == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assertAmounts(t, test.want.Resources.Requests, got[0].Resources.Requests, "requests")
			assertAmounts(t, test.want.Resources.Limits, got[0].Resources.Limits, "limits")
			assert.Equal(t, pod.Status.QOSClass, qosClassAfter(pod, got))
		})
	}
}

func TestRestoreSkipsOrdinaryInitContainers(t *testing.T) {
	t.Parallel()
	containers := func(request string) []corev1.Container {
		initContainer := container("init", list(request, ""), nil)
		retried := container("retried", list(request, ""), nil)
		retried.RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
		sidecar := container("sidecar", list(request, ""), nil)
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return []corev1.Container{initContainer, retried, sidecar}
	}
	pod := podOf()
	pod.Spec.InitContainers = containers("1")
	restore := Restore{
		Spec: &autoscalingv1beta1.VerticalScalerSpec{}, Template: &corev1.PodSpec{InitContainers: containers("1m")}, Resources: AllResources(),
	}
	got := restore.restored(pod)
	require.Len(t, got, 1)
	assert.Equal(t, "sidecar", got[0].Name)
	assertAmounts(t, list("1m", ""), got[0].Resources.Requests, "requests")
}

func TestPodAfterAPlanHasItsResources(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("1", ""), nil), container("log", list("1", ""), nil))
	before := pod.DeepCopy()
	after := Plan{Containers: []corev1.Container{container("log", list("2", ""), nil)}}.PodAfter(pod)
	assert.Equal(t, before, pod, "the pod must not change")
	assertAmounts(t, list("1", ""), after.Spec.Containers[0].Resources.Requests, "requests of app")
	assertAmounts(t, list("2", ""), after.Spec.Containers[1].Resources.Requests, "requests of log")
}
