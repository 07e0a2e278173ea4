package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestInFallbackNoContainerGetsMoreThanItsTemplateHas(t *testing.T) {
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
	before := copied(sizes)
	fallback := func(ranges []corev1.LimitRange) map[string]autoscalingv1beta1.ContainerSizing {
		got := map[string]autoscalingv1beta1.ContainerSizing{}
		for _, size := range NoMoreThanTemplate(spec, sizes, ranges) {
			got[size.ContainerName] = size
		}
		return got
	}
	got := fallback(nil)
	assert.Equal(t, before, sizes, "the sizes stay as they are")
	assert.Len(t, got, 2)
	assertAmounts(t, list("", "64Mi"), got["more"].Requests, "requests of more")
	assertAmounts(t, list("50m", "128Mi"), got["less"].Requests, "requests of less")
	assertAmounts(t, list("100m", ""), got["less"].Limits, "limits of less")

	// Without the size of the first, 280m are requested in all, or 100m by each.
	got = fallback(podItem(corev1.LimitRangeItem{Min: list("280m", "")}))
	assertAmounts(t, list("80m", "128Mi"), got["less"].Requests, "requests of less")
	got = fallback(limitRanges(corev1.LimitRangeItem{DefaultRequest: list("1m", "")}))
	assertAmounts(t, list("1m", ""), got["none"].Requests, "requests of none")
}

func TestAPodThatIsLargerThanItsTemplateGetsTheTemplatesSize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template, has, want corev1.Container
		ranges              []corev1.LimitRange
	}{
		"a larger one": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			has:      container("app", list("300m", "512Mi"), list("600m", "1Gi")),
			want:     container("app", list("100m", "128Mi"), list("200m", "256Mi"))},
		"of one resource": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			has:      container("app", list("300m", "64Mi"), list("600m", "128Mi")),
			want:     container("app", list("100m", "64Mi"), list("200m", "128Mi"))},
		"a request that the template has not is as good as none": {
			template: container("app", list("", "128Mi"), nil),
			has:      container("app", list("300m", "512Mi"), nil),
			want:     container("app", list("1m", "128Mi"), nil)},
		"a default is the template's own": {
			template: container("app", nil, nil),
			has:      container("app", list("300m", ""), list("600m", "")),
			want:     container("app", list("50m", ""), list("100m", "")),
			ranges:   limitRanges(corev1.LimitRangeItem{Default: list("100m", ""), DefaultRequest: list("50m", "")})},
		"a pod of class Guaranteed stays one": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			has:      container("app", list("300m", "512Mi"), list("300m", "512Mi")),
			want:     container("app", list("100m", "128Mi"), list("100m", "128Mi"))},
		"one that is not larger": {
			template: container("app", list("100m", "128Mi"), list("200m", "256Mi")),
			has:      container("app", list("100m", "64Mi"), list("200m", "256Mi"))},
		"one of another name": {
			template: container("other", list("100m", "128Mi"), nil), has: container("app", list("300m", "512Mi"), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.has)
			before := pod.DeepCopy()
			pod.Status.QOSClass = QOSClassAfter(pod, nil)
			before.Status.QOSClass = pod.Status.QOSClass
			template := &corev1.PodSpec{Containers: []corev1.Container{test.template}}
			got := restored(pod, template, test.ranges)
			assert.Equal(t, before, pod, "the pod stays as it is")
			if test.want.Name == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assertAmounts(t, test.want.Resources.Requests, got[0].Resources.Requests, "requests")
			assertAmounts(t, test.want.Resources.Limits, got[0].Resources.Limits, "limits")
			assert.Equal(t, pod.Status.QOSClass, QOSClassAfter(pod, got))
		})
	}
}

func TestOfInitContainersThoseThatStayAreRestored(t *testing.T) {
	t.Parallel()
	template := &corev1.PodSpec{InitContainers: []corev1.Container{container("init", list("1m", ""), nil), container("sidecar", list("1m", ""), nil)}}
	pod := podOf()
	pod.Spec.InitContainers = []corev1.Container{container("init", list("1", ""), nil), container("sidecar", list("1", ""), nil)}
	pod.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	got := restored(pod, template, nil)
	require.Len(t, got, 1)
	assert.Equal(t, "sidecar", got[0].Name)
}
