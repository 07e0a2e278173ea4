package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestFallbackSizesDoNotExceedTemplate(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{Containers: []corev1.Container{
		container("more", list("100m", "128Mi"), list("200m", "")),
		container("less", list("100m", "128Mi"), list("200m", "")),
		container("limited", list("100m", ""), list("100m", "")),
		container("none", nil, nil),
	}}
	size := func(name string, requests, limits corev1.ResourceList) autoscalingv1beta1.ContainerSizing {
		return autoscalingv1beta1.ContainerSizing{ContainerName: name, Requests: requests, Limits: limits}
	}
	sizes := []autoscalingv1beta1.ContainerSizing{
		size("more", list("101m", "64Mi"), list("202m", "")), size("less", list("50m", "128Mi"), list("100m", "")),
		size("limited", list("50m", ""), list("101m", "")), size("none", list("1m", "1Mi"), nil), size("gone", list("1m", ""), nil),
	}
	before := cloneSizes(sizes)
	fallback := func(ranges []corev1.LimitRange) map[string]autoscalingv1beta1.ContainerSizing {
		got := map[string]autoscalingv1beta1.ContainerSizing{}
		for _, size := range NoMoreThanTemplate(spec, sizes, ranges) {
			got[size.ContainerName] = size
		}
		return got
	}
	got := fallback(nil)
	assert.Equal(t, before, sizes, "the sizes must not change")
	assert.Len(t, got, 2)
	assertAmounts(t, list("", "64Mi"), got["more"].Requests, "requests of more")
	assertAmounts(t, list("50m", "128Mi"), got["less"].Requests, "requests of less")
	assertAmounts(t, list("100m", ""), got["less"].Limits, "limits of less")

	// The pod must request 280m. "more" and "limited" request the template's 100m each.
	got = fallback(podLimitRange(corev1.LimitRangeItem{Min: list("280m", "")}))
	assertAmounts(t, list("80m", "128Mi"), got["less"].Requests, "requests of less")
	got = fallback(limitRanges(corev1.LimitRangeItem{DefaultRequest: list("1m", "")}))
	assertAmounts(t, list("1m", ""), got["none"].Requests, "requests of none")
}

func TestRestoreLowersPodToTemplate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template, current, want corev1.Container
		ranges                  []corev1.LimitRange
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
			want:     container("app", list("1m", "128Mi"), nil)},
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
			template := &corev1.PodSpec{Containers: []corev1.Container{test.template}}
			got := restored(pod, template, test.ranges)
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
	got := restored(pod, &corev1.PodSpec{InitContainers: containers("1m")}, nil)
	require.Len(t, got, 1)
	assert.Equal(t, "sidecar", got[0].Name)
	assertAmounts(t, list("1m", ""), got[0].Resources.Requests, "requests")
}
