package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

const mebi = 1 << 20

// list returns amounts of CPU and memory. An empty string leaves the resource out.
func list(cpu, memory string) corev1.ResourceList {
	amounts := corev1.ResourceList{}
	if cpu != "" {
		amounts[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		amounts[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return amounts
}

// amountsOf returns the amounts as they are in a scaler's spec.
func amountsOf(cpu, memory string) *autoscalingv1beta1.ResourceAmounts {
	amounts := &autoscalingv1beta1.ResourceAmounts{}
	for name, amount := range list(cpu, memory) {
		if name == corev1.ResourceCPU {
			amounts.CPU = &amount
		} else {
			amounts.Memory = &amount
		}
	}
	return amounts
}

func TestPolicyUsesDefaultsWithoutRecommendationPolicy(t *testing.T) {
	t.Parallel()
	defaults := &autoscalingv1beta1.RecommendationPolicy{
		TargetPercentile: 90, LowerPercentile: 50, UpperPercentile: 95, MarginPercent: new(int32(15)),
	}
	for name, recommendation := range map[string]*autoscalingv1beta1.RecommendationPolicy{
		"nil": nil, "empty": {}, "with the API server's defaults": defaults,
	} {
		spec := &autoscalingv1beta1.VerticalScalerSpec{Recommendation: recommendation}
		for _, containers := range []int{0, 1, 3} {
			assert.Equal(t, recommender.DefaultPolicy(containers), Policy(spec, "app", containers, Constraints{}), name)
		}
	}
}

func TestPolicyUsesEachFieldOfRecommendationPolicy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recommendation autoscalingv1beta1.RecommendationPolicy
		change         func(*recommender.Policy)
	}{
		"targetPercentile": {
			autoscalingv1beta1.RecommendationPolicy{TargetPercentile: 1}, func(p *recommender.Policy) { p.TargetPercentile = 0.01 }},
		"lowerPercentile": {
			autoscalingv1beta1.RecommendationPolicy{LowerPercentile: 29}, func(p *recommender.Policy) { p.LowerPercentile = 0.29 }},
		"upperPercentile": {
			autoscalingv1beta1.RecommendationPolicy{UpperPercentile: 100}, func(p *recommender.Policy) { p.UpperPercentile = 1 }},
		"marginPercent": {
			autoscalingv1beta1.RecommendationPolicy{MarginPercent: new(int32(1000))}, func(p *recommender.Policy) { p.Margin = 10 }},
		"marginPercent 0": {
			autoscalingv1beta1.RecommendationPolicy{MarginPercent: new(int32(0))}, func(p *recommender.Policy) { p.Margin = 0 }},
		"podMinimum is divided among the containers": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("100m", "100Mi")},
			func(p *recommender.Policy) { p.CPU.PodMinimum, p.Memory.PodMinimum = 34, 34*mebi }},
		"podMinimum for CPU only": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("3", "")},
			func(p *recommender.Policy) { p.CPU.PodMinimum = 1000 }},
		"podMinimum for memory only": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("", "3Gi")},
			func(p *recommender.Policy) { p.Memory.PodMinimum = 1024 * mebi }},
		"podMinimum 0 disables the minimum": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("0", "0")},
			func(p *recommender.Policy) { p.CPU.PodMinimum, p.Memory.PodMinimum = 0, 0 }},
		"empty podMinimum": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("", "")}, func(*recommender.Policy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := recommender.DefaultPolicy(3)
			test.change(&want)
			spec := &autoscalingv1beta1.VerticalScalerSpec{Recommendation: &test.recommendation}
			assert.Equal(t, want, Policy(spec, "app", 3, Constraints{}))
		})
	}
}

func TestPolicyPrefersContainersOwnPolicyToWildcard(t *testing.T) {
	t.Parallel()
	own := autoscalingv1beta1.ContainerPolicy{
		ContainerName: "app", MinAllowed: amountsOf("50m", "64Mi"), MaxAllowed: amountsOf("2", "1Gi"),
	}
	wildcard := autoscalingv1beta1.ContainerPolicy{ContainerName: "*", MaxAllowed: amountsOf("500m", "")}
	other := autoscalingv1beta1.ContainerPolicy{ContainerName: "other", MaxAllowed: amountsOf("1m", "1Mi")}
	unbounded := autoscalingv1beta1.ContainerPolicy{ContainerName: "app"}
	type policies = []autoscalingv1beta1.ContainerPolicy
	for name, test := range map[string]struct {
		policies    policies
		cpu, memory recommender.Range
	}{
		"none":                        {},
		"another container's":         {policies: policies{other}},
		"its own":                     {policies{other, own}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"wildcard":                    {policies{other, wildcard}, recommender.Range{Max: 500}, recommender.Range{}},
		"its own before the wildcard": {policies{own, wildcard}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"its own after the wildcard":  {policies{wildcard, own}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"its own without bounds":      {policies: policies{wildcard, unbounded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: test.policies}, "app", 1, Constraints{})
			assert.Equal(t, test.cpu, got.CPU.Allowed)
			assert.Equal(t, test.memory, got.Memory.Allowed)
		})
	}
}

func TestPolicyUsesAllLimitRangesForContainers(t *testing.T) {
	t.Parallel()
	limits := func(items ...corev1.LimitRangeItem) corev1.LimitRange {
		return corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	container := func(lower, upper corev1.ResourceList) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: lower, Max: upper}
	}
	low, high := list("10m", "8Mi"), list("4", "8Gi")
	for name, test := range map[string]struct {
		ranges      []corev1.LimitRange
		cpu, memory recommender.Range
	}{
		"none": {},
		"one": {
			[]corev1.LimitRange{limits(container(low, high))},
			recommender.Range{Min: 10, Max: 4000}, recommender.Range{Min: 8 * mebi, Max: 8192 * mebi}},
		"one resource": {
			[]corev1.LimitRange{limits(container(list("10m", ""), list("", "8Gi")))},
			recommender.Range{Min: 10}, recommender.Range{Max: 8192 * mebi}},
		"several: the strictest apply": {
			[]corev1.LimitRange{
				limits(container(low, list("2", "8Gi"))),
				limits(container(list("20m", "4Mi"), high), container(list("5m", "16Mi"), list("3", "1Gi"))),
			},
			recommender.Range{Min: 20, Max: 2000}, recommender.Range{Min: 16 * mebi, Max: 1024 * mebi}},
		"items for pods and volumes": {
			ranges: []corev1.LimitRange{limits(
				corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: low, Max: high},
				corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: low, Max: high},
			)}},
		"defaults only": {
			ranges: []corev1.LimitRange{limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: high, DefaultRequest: low})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{}, "app", 1, Constraints{LimitRanges: test.ranges})
			assert.Equal(t, test.cpu, got.CPU.LimitRange)
			assert.Equal(t, test.memory, got.Memory.LimitRange)
		})
	}
}
