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

// list returns amounts of CPU and memory, without those that are empty.
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

// amountsOf returns the same as the field of a spec.
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

func TestWithoutARecommendationPolicyTheDefaultsHold(t *testing.T) {
	t.Parallel()
	percents := &autoscalingv1beta1.RecommendationPolicy{
		TargetPercentile: 90, LowerPercentile: 50, UpperPercentile: 95, MarginPercent: new(int32(15)),
	}
	for name, asked := range map[string]*autoscalingv1beta1.RecommendationPolicy{
		"none": nil, "an empty one": {}, "one of the API server's defaults": percents,
	} {
		spec := &autoscalingv1beta1.VerticalScalerSpec{Recommendation: asked}
		for _, containers := range []int{0, 1, 3} {
			assert.Equal(t, recommender.DefaultPolicy(containers), Policy(spec, "app", containers, Surroundings{}), name)
		}
	}
}

func TestEachFieldOfTheRecommendationPolicyCounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asked  autoscalingv1beta1.RecommendationPolicy
		change func(*recommender.Policy)
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
		"podMinimum is shared among the containers": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("100m", "100Mi")},
			func(p *recommender.Policy) { p.CPU.PodMinimum, p.Memory.PodMinimum = 34, 34*mebi }},
		"podMinimum of CPU alone": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("3", "")},
			func(p *recommender.Policy) { p.CPU.PodMinimum = 1000 }},
		"podMinimum of memory alone": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("", "3Gi")},
			func(p *recommender.Policy) { p.Memory.PodMinimum = 1024 * mebi }},
		"podMinimum 0 turns the minimum off": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("0", "0")},
			func(p *recommender.Policy) { p.CPU.PodMinimum, p.Memory.PodMinimum = 0, 0 }},
		"podMinimum that is empty": {
			autoscalingv1beta1.RecommendationPolicy{PodMinimum: amountsOf("", "")}, func(*recommender.Policy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := recommender.DefaultPolicy(3)
			test.change(&want)
			spec := &autoscalingv1beta1.VerticalScalerSpec{Recommendation: &test.asked}
			assert.Equal(t, want, Policy(spec, "app", 3, Surroundings{}))
		})
	}
}

func TestAContainersOwnPolicyOverrulesThatOfAllContainers(t *testing.T) {
	t.Parallel()
	own := autoscalingv1beta1.ContainerPolicy{
		ContainerName: "app", MinAllowed: amountsOf("50m", "64Mi"), MaxAllowed: amountsOf("2", "1Gi"),
	}
	all := autoscalingv1beta1.ContainerPolicy{ContainerName: "*", MaxAllowed: amountsOf("500m", "")}
	other := autoscalingv1beta1.ContainerPolicy{ContainerName: "other", MaxAllowed: amountsOf("1m", "1Mi")}
	bare := autoscalingv1beta1.ContainerPolicy{ContainerName: "app"}
	type policies = []autoscalingv1beta1.ContainerPolicy
	for name, test := range map[string]struct {
		policies    policies
		cpu, memory recommender.Range
	}{
		"none":                          {},
		"one of another container":      {policies: policies{other}},
		"its own":                       {policies{other, own}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"that of all":                   {policies{other, all}, recommender.Range{Max: 500}, recommender.Range{}},
		"its own before that of all":    {policies{own, all}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"its own after that of all":     {policies{all, own}, recommender.Range{Min: 50, Max: 2000}, recommender.Range{Min: 64 * mebi, Max: 1024 * mebi}},
		"its own, which bounds nothing": {policies: policies{all, bare}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: test.policies}, "app", 1, Surroundings{})
			assert.Equal(t, test.cpu, got.CPU.Allowed)
			assert.Equal(t, test.memory, got.Memory.Allowed)
		})
	}
}

func TestEveryLimitRangeOfContainersHolds(t *testing.T) {
	t.Parallel()
	limits := func(items ...corev1.LimitRangeItem) corev1.LimitRange {
		return corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	container := func(least, most corev1.ResourceList) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: least, Max: most}
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
		"of one resource": {
			[]corev1.LimitRange{limits(container(list("10m", ""), list("", "8Gi")))},
			recommender.Range{Min: 10}, recommender.Range{Max: 8192 * mebi}},
		"several, of which the narrowest hold": {
			[]corev1.LimitRange{
				limits(container(low, list("2", "8Gi"))),
				limits(container(list("20m", "4Mi"), high), container(list("5m", "16Mi"), list("3", "1Gi"))),
			},
			recommender.Range{Min: 20, Max: 2000}, recommender.Range{Min: 16 * mebi, Max: 1024 * mebi}},
		"of pods and volumes": {
			ranges: []corev1.LimitRange{limits(
				corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: low, Max: high},
				corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: low, Max: high},
			)}},
		"of defaults alone": {
			ranges: []corev1.LimitRange{limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: high, DefaultRequest: low})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{}, "app", 1, Surroundings{LimitRanges: test.ranges})
			assert.Equal(t, test.cpu, got.CPU.LimitRange)
			assert.Equal(t, test.memory, got.Memory.LimitRange)
		})
	}
}

func TestTheLargestNodeHasTheMostOfEachResource(t *testing.T) {
	t.Parallel()
	nodes := func(allocatable ...corev1.ResourceList) (all []corev1.Node) {
		for _, amounts := range allocatable {
			all = append(all, corev1.Node{Status: corev1.NodeStatus{Allocatable: amounts, Capacity: list("64", "1Ti")}})
		}
		return all
	}
	for name, test := range map[string]struct {
		nodes       []corev1.Node
		largest     corev1.ResourceList
		cpu, memory int64
	}{
		"no node":                      {nil, list("", ""), 0, 0},
		"a node of nothing":            {nodes(nil), list("", ""), 0, 0},
		"one":                          {nodes(list("1930m", "7Gi")), list("1930m", "7Gi"), 1930, 7168 * mebi},
		"each resource of another one": {nodes(list("2", "8Gi"), list("4", "4Gi"), list("1", "1Gi")), list("4", "8Gi"), 4000, 8192 * mebi},
		"one that tells its CPU alone": {nodes(list("4", ""), list("2", "4Gi")), list("4", "4Gi"), 4000, 4096 * mebi},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			largest := LargestNode(test.nodes)
			assert.Equal(t, test.largest, largest)
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{}, "app", 1, Surroundings{LargestNode: largest})
			assert.Equal(t, test.cpu, got.CPU.NodeSize)
			assert.Equal(t, test.memory, got.Memory.NodeSize)
		})
	}
}
