package sizing

import (
	"math/rand"
	"slices"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// podLimitRange returns a LimitRange for whole pods.
func podLimitRange(item corev1.LimitRangeItem) []corev1.LimitRange {
	item.Type = corev1.LimitTypePod
	return limitRanges(item)
}

// templateTest has a template, its containers' targets by name, and the expected sizes.
type templateTest struct {
	containers, initContainers []corev1.Container
	targets                    map[string]corev1.ResourceList
	ranges                     []corev1.LimitRange

	want []corev1.Container
}

func checkTemplates(t *testing.T, tests map[string]templateTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &corev1.PodSpec{InitContainers: test.initContainers, Containers: test.containers}
			before := spec.DeepCopy()
			got := Template(&autoscalingv1beta1.VerticalScalerSpec{}, spec, test.targets, Constraints{LimitRanges: test.ranges})
			assert.Equal(t, before, spec, "the template must not change")
			require.Len(t, got, len(test.want))
			for i, want := range test.want {
				assert.Equal(t, want.Name, got[i].ContainerName)
				assertAmounts(t, want.Resources.Requests, got[i].Requests, "requests of "+want.Name)
				assertAmounts(t, want.Resources.Limits, got[i].Limits, "limits of "+want.Name)
			}
		})
	}
}

func TestTemplateScalesAllTargetsToFitLimitRangesForPods(t *testing.T) {
	t.Parallel()
	two := []corev1.Container{container("a", list("100m", ""), list("200m", "")), container("b", list("100m", ""), list("200m", ""))}
	targets := map[string]corev1.ResourceList{"a": list("300m", ""), "b": list("100m", "")}
	sidecar := container("sidecar", list("100m", ""), list("200m", ""))
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	checkTemplates(t, map[string]templateTest{
		"within the LimitRange": {
			containers: two, targets: targets, ranges: podLimitRange(corev1.LimitRangeItem{Min: list("400m", ""), Max: list("800m", "")}),
			want: []corev1.Container{container("a", list("300m", ""), list("600m", "")), container("b", list("100m", ""), list("200m", ""))}},
		"sum of the limits above the max": {
			containers: two, targets: map[string]corev1.ResourceList{"a": list("600m", ""), "b": list("400m", "")},
			ranges: podLimitRange(corev1.LimitRangeItem{Max: list("1", "")}),
			want:   []corev1.Container{container("a", list("300m", ""), list("600m", "")), container("b", list("200m", ""), list("400m", ""))}},
		"no target is scaled below the template's request": {
			containers: two, targets: targets, ranges: podLimitRange(corev1.LimitRangeItem{Max: list("500m", "")}),
			want: []corev1.Container{container("a", list("150m", ""), list("300m", "")), container("b", list("100m", ""), list("200m", ""))}},
		"target below the template's request is not scaled down": {
			containers: two, targets: map[string]corev1.ResourceList{"a": list("800m", ""), "b": list("60m", "")},
			ranges: podLimitRange(corev1.LimitRangeItem{Max: list("600m", "")}),
			want:   []corev1.Container{container("a", list("240m", ""), list("480m", "")), container("b", list("60m", ""), list("120m", ""))}},
		"sum of the requests below the min": {
			containers: two, targets: map[string]corev1.ResourceList{"a": list("30m", ""), "b": list("10m", "")},
			ranges: podLimitRange(corev1.LimitRangeItem{Min: list("80m", "")}),
			want:   []corev1.Container{container("a", list("60m", ""), list("120m", "")), container("b", list("20m", ""), list("40m", ""))}},
		"container without a target keeps its resources": {
			containers: two, targets: map[string]corev1.ResourceList{"b": list("300m", "")},
			ranges: podLimitRange(corev1.LimitRangeItem{Max: list("500m", "")}),
			want:   []corev1.Container{container("b", list("150m", ""), list("300m", ""))}},
		"sidecar": {
			initContainers: []corev1.Container{sidecar}, containers: two[:1],
			targets: map[string]corev1.ResourceList{"a": list("600m", ""), "sidecar": list("400m", "")},
			ranges:  podLimitRange(corev1.LimitRangeItem{Max: list("1", "")}),
			want:    []corev1.Container{container("sidecar", list("200m", ""), list("400m", "")), container("a", list("300m", ""), list("600m", ""))}},
		"resources are scaled independently": {
			containers: []corev1.Container{container("a", list("100m", "128Mi"), list("100m", "128Mi"))},
			targets:    map[string]corev1.ResourceList{"a": list("300m", "1Gi")},
			ranges:     podLimitRange(corev1.LimitRangeItem{Max: list("1", "512Mi")}),
			want:       []corev1.Container{container("a", list("300m", "512Mi"), list("300m", "512Mi"))}},
		"maximum ratio of the sums": {
			containers: []corev1.Container{container("a", list("100m", ""), list("300m", "")), container("b", list("300m", ""), list("300m", ""))},
			targets:    map[string]corev1.ResourceList{"a": list("500m", ""), "b": list("300m", "")},
			// Limits and requests are 600m and 400m in the template, 1800m and 800m at the targets, and
			// 1204m and 602m between the two.
			ranges: podLimitRange(corev1.LimitRangeItem{MaxLimitRequestRatio: list("2", "")}),
			want:   []corev1.Container{container("a", list("302m", ""), list("904m", "")), container("b", list("300m", ""), list("300m", ""))}},
		"max and maximum ratio of the sums": {
			containers: two, targets: map[string]corev1.ResourceList{"a": list("250m", ""), "b": list("250m", "")},
			ranges: slices.Concat(limitRanges(corev1.LimitRangeItem{Max: list("250m", "")}),
				podLimitRange(corev1.LimitRangeItem{Max: list("480m", ""), MaxLimitRequestRatio: list("2", "")})),
			want: []corev1.Container{container("a", list("120m", ""), list("240m", "")), container("b", list("120m", ""), list("240m", ""))}},
		"template that is rejected without sizes": {
			containers: two, targets: targets, ranges: podLimitRange(corev1.LimitRangeItem{Max: list("100m", "")}),
			want: []corev1.Container{container("a", list("300m", ""), list("600m", "")), container("b", list("100m", ""), list("200m", ""))}},
	})
}

// randomAdmittedPod returns the spec of a pod and LimitRanges that admit it.
func randomAdmittedPod(r *rand.Rand) (*corev1.PodSpec, []corev1.LimitRange) {
	bytes := func(amount int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(amount, resource.BinarySI)}
	}
	spec := &corev1.PodSpec{}
	for i := range 1 + r.Intn(4) {
		c := container(string(rune('a'+i)), nil, nil)
		if request := randomAmount(r); r.Intn(8) > 0 {
			c.Resources.Requests = bytes(request)
			if r.Intn(4) > 0 {
				c.Resources.Limits = bytes(max(1, request+randomAmount(r)*int64(r.Intn(2))))
			}
		}
		switch r.Intn(4) {
		case 0:
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			fallthrough
		case 1:
			spec.InitContainers = append(spec.InitContainers, c)
		default:
			spec.Containers = append(spec.Containers, c)
		}
	}
	var ranges []corev1.LimitRange
	for len(ranges) < 3 {
		item := corev1.LimitRangeItem{}
		for _, setField := range []func(){
			func() { item.Type = []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer}[r.Intn(2)] },
			func() { item.Min = bytes(randomAmount(r)) },
			func() { item.Max = bytes(max(1, randomAmount(r))) },
			func() {
				item.MaxLimitRequestRatio = corev1.ResourceList{
					corev1.ResourceMemory: *resource.NewMilliQuantity(1000+r.Int63n(3000), resource.DecimalSI)}
			},
		} {
			if item.Type == "" || r.Intn(2) > 0 {
				setField()
			}
		}
		if added := slices.Concat(ranges, limitRanges(item)); admits(added, spec, memory) {
			ranges = added
		} else if r.Intn(20) == 0 {
			break
		}
	}
	return spec, ranges
}

func TestPropertyAdmittedPodIsAdmittedWithItsSizes(t *testing.T) {
	t.Parallel()
	sized, notSized := 0, 0
	property := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		spec, ranges := randomAdmittedPod(r)
		targets := map[string]corev1.ResourceList{}
		for _, c := range containersOf(spec) {
			if (c.RestartPolicy != nil || r.Intn(3) > 0) && r.Intn(5) > 0 {
				targets[c.Name] = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(randomAmount(r), resource.BinarySI)}
			}
		}
		scaler := &autoscalingv1beta1.VerticalScalerSpec{}
		if r.Intn(4) == 0 {
			scaler.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
				{ContainerName: "*", ControlledValues: autoscalingv1beta1.ControlledValuesRequestsOnly}}
		}
		sizes := Template(scaler, spec, targets, Constraints{LimitRanges: ranges})
		fallback := NoMoreThanTemplate(spec, sizes, ranges, AllResources())
		if len(targets) > 0 && len(sizes) == 0 {
			notSized++
		} else {
			sized++
		}
		pod := newLimitedPod(spec, ranges)
		return assert.True(t, pod.isAdmitted(memory, sizes), "sizes %v, pod %v, LimitRanges %v", sizes, spec, ranges) &&
			assert.True(t, pod.isAdmitted(memory, fallback), "sizes %v, pod %v, LimitRanges %v", fallback, spec, ranges) &&
			assert.False(t, exceedsTemplate(pod, fallback), "sizes %v, pod %v, LimitRanges %v", fallback, spec, ranges) &&
			assert.True(t, isPodValid(pod.withSizes(sizes)) && isPodValid(pod.withSizes(fallback)))
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 5000, Rand: rand.New(rand.NewSource(1))}))
	assert.Less(t, notSized, sized/10, "pods without any size")
}

func exceedsTemplate(pod *limitedPod, sizes []autoscalingv1beta1.ContainerSizing) bool {
	for i := range sizes {
		if memory.exceeds(sizes[i], pod.container(sizes[i].ContainerName).Resources) {
			return true
		}
	}
	return false
}

func isPodValid(spec *corev1.PodSpec) bool {
	for _, c := range containersOf(spec) {
		if !isValid(c.Resources) {
			return false
		}
	}
	return true
}
