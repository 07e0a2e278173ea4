package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
		for _, size := range NoMoreThanTemplate(spec, sizes, ranges, AllResources()) {
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

func TestFallbackLowersOnlyTheNamedResource(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{Containers: []corev1.Container{container("app", list("100m", "128Mi"), nil)}}
	sizes := []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("300m", "512Mi"), nil)}
	onlyCPU := []corev1.ResourceName{corev1.ResourceCPU}
	got := NoMoreThanTemplate(spec, sizes, nil, onlyCPU)
	assertAmounts(t, list("", "512Mi"), got[0].Requests, "at most the template")
	got = NoMoreThan(spec, sizes, []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("200m", "256Mi"), nil)}, nil, onlyCPU)
	assertAmounts(t, list("200m", "512Mi"), got[0].Requests, "at most the other size")
}

func TestFallbackSizesDoNotExceedAnotherSize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size, most, want autoscalingv1beta1.ContainerSizing
		templateLimits   corev1.ResourceList
		ranges           []corev1.LimitRange
	}{
		"each resource on its own": {
			size: sizeOf("app", list("300m", "128Mi"), nil), most: sizeOf("app", list("200m", "256Mi"), nil),
			want: sizeOf("app", list("200m", "128Mi"), nil)},
		"the limit keeps its ratio": {
			size: sizeOf("app", list("300m", ""), list("600m", "")), most: sizeOf("app", list("200m", ""), list("1", "")),
			want: sizeOf("app", list("200m", ""), list("400m", "")), templateLimits: list("200m", "")},
		"a wide limit stays": {
			size: sizeOf("app", list("300m", ""), list("1", "")), most: sizeOf("app", list("200m", ""), list("400m", "")),
			want: sizeOf("app", list("200m", ""), list("1", "")), templateLimits: list("1", "")},
		"the limit stays equal to the request": {
			size: sizeOf("app", list("300m", ""), list("300m", "")), most: sizeOf("app", list("200m", ""), nil),
			want: sizeOf("app", list("200m", ""), list("200m", "")), templateLimits: list("100m", "")},
		"the limit stays above the request": {
			size: sizeOf("app", list("300m", ""), list("330m", "")), most: sizeOf("app", list("200m", ""), list("200m", "")),
			want: sizeOf("app", list("200m", ""), list("220m", "")), templateLimits: list("110m", "")},
		"limits are not sized": {
			size: sizeOf("app", list("300m", ""), nil), most: sizeOf("app", list("200m", ""), list("300m", "")),
			want: sizeOf("app", list("200m", ""), nil)},
		"another container": {
			size: sizeOf("app", list("300m", ""), nil), most: sizeOf("log", list("200m", ""), nil),
			want: sizeOf("app", list("300m", ""), nil)},
		"another resource": {
			size: sizeOf("app", list("300m", ""), nil), most: sizeOf("app", list("", "1Mi"), nil),
			want: sizeOf("app", list("300m", ""), nil)},
		"below the template": {
			size: sizeOf("app", list("90m", ""), nil), most: sizeOf("app", list("50m", ""), nil), want: sizeOf("app", list("50m", ""), nil)},
		"from above the template to no less than it": {
			size: sizeOf("app", list("300m", "1Gi"), nil), most: sizeOf("app", list("50m", "256Mi"), nil),
			want: sizeOf("app", list("100m", "256Mi"), nil)},
		"a LimitRange refuses the other size": {
			size: sizeOf("app", list("90m", ""), nil), most: sizeOf("app", list("50m", ""), nil),
			want: sizeOf("app", list("80m", ""), nil), ranges: podLimitRange(corev1.LimitRangeItem{Min: list("80m", "")})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &corev1.PodSpec{Containers: []corev1.Container{container("app", list("100m", "128Mi"), test.templateLimits)}}
			sizes := []autoscalingv1beta1.ContainerSizing{test.size}
			before := cloneSizes(sizes)
			got := NoMoreThan(spec, sizes, []autoscalingv1beta1.ContainerSizing{test.most}, test.ranges, AllResources())
			assert.Equal(t, before, sizes, "the sizes must not change")
			assertAmounts(t, test.want.Requests, got[0].Requests, "requests")
			assertAmounts(t, test.want.Limits, got[0].Limits, "limits")
		})
	}
}

// The texts are those of the scheduler's plugins.
func TestOnlyInsufficientCPUAndMemoryAreAboutTheSize(t *testing.T) {
	t.Parallel()
	for message, want := range map[string][]corev1.ResourceName{
		"0/3 nodes are available: 3 Insufficient cpu.":                                                            {"cpu"},
		"0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: 0/3 nodes are available": {"memory", "cpu"},
		"0/2 nodes are available: 1 Insufficient memory, 1 Too many pods.":                                        {"memory"},
		"0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate":                                {"cpu"},
		"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.":                                nil,
		"0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.":                  nil,
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.":                              nil,
		"0/3 nodes are available: 3 node(s) had untolerated taint(s).":                                            nil,
		"0/3 nodes are available: 3 Insufficient ephemeral-storage.":                                              nil,
		"0/3 nodes are available: 3 Insufficient memory.example.com/fast, 3 Insufficient cpu.example.com/x.":      nil,
		"": nil,
	} {
		assert.Equal(t, want, Insufficient(message), message)
	}
}

func TestSizesOfTheTemplateDoNotDifferFromIt(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{Containers: []corev1.Container{container("app", list("100m", ""), list("200m", ""))}}
	for name, test := range map[string]struct {
		size autoscalingv1beta1.ContainerSizing
		want bool
	}{
		"same":              {sizeOf("app", list("0.1", ""), list("0.2", "")), false},
		"request":           {sizeOf("app", list("101m", ""), list("200m", "")), true},
		"limit":             {sizeOf("app", list("100m", ""), list("201m", "")), true},
		"smaller":           {sizeOf("app", list("99m", ""), nil), true},
		"another container": {sizeOf("log", list("1", ""), nil), false},
	} {
		assert.Equal(t, test.want, DiffersFromTemplate(spec, []autoscalingv1beta1.ContainerSizing{test.size}, nil), name)
	}
}
