package sizing

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

func TestContainerRecommendationHasFiguresOfRecommender(t *testing.T) {
	t.Parallel()
	cpu := recommender.Estimate{Target: 1200, LowerBound: 0, UpperBound: 4000, UncappedTarget: 145}
	memory := recommender.Estimate{Target: 363 * mebi, LowerBound: 250 * mebi, UpperBound: 1<<30 + 1, UncappedTarget: 1 << 30}
	for name, test := range map[string]struct {
		from recommender.Recommendation
		want string
	}{
		"both resources": {
			recommender.Recommendation{CPU: cpu, Memory: memory, Samples: 10081, Span: 7 * 24 * time.Hour},
			`{"containerName": "app", "samples": 10081, "span": "168h0m0s",
			  "target": {"cpu": "1200m", "memory": "363Mi"}, "lowerBound": {"cpu": "0", "memory": "250Mi"},
			  "upperBound": {"cpu": "4", "memory": "1073741825"}, "uncappedTarget": {"cpu": "145m", "memory": "1Gi"}}`,
		},
		"memory only": {
			recommender.Recommendation{Memory: memory},
			`{"containerName": "app", "target": {"memory": "363Mi"}, "lowerBound": {"memory": "250Mi"},
			  "upperBound": {"memory": "1073741825"}, "uncappedTarget": {"memory": "1Gi"}}`,
		},
		"CPU only": {
			recommender.Recommendation{CPU: cpu, Samples: 1},
			`{"containerName": "app", "samples": 1, "target": {"cpu": "1200m"}, "lowerBound": {"cpu": "0"},
			  "upperBound": {"cpu": "4"}, "uncappedTarget": {"cpu": "145m"}}`,
		},
		"no samples": {recommender.Recommendation{}, `{"containerName": "app", "target": null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(ContainerRecommendation("app", test.from))
			require.NoError(t, err)
			assert.JSONEq(t, test.want, string(got))
		})
	}
}

func TestContainerRecommendationHasCaps(t *testing.T) {
	t.Parallel()
	type caps = map[corev1.ResourceName]autoscalingv1beta1.Cap
	for name, test := range map[string]struct {
		cpu, memory recommender.Cap
		want        caps
	}{
		"none":   {"", "", nil},
		"CPU":    {recommender.CapMaxAllowed, "", caps{"cpu": autoscalingv1beta1.CapMaxAllowed}},
		"memory": {"", recommender.CapPodMinimum, caps{"memory": autoscalingv1beta1.CapPodMinimum}},
		"both":   {recommender.CapNodeSize, recommender.CapLimitRange, caps{"cpu": autoscalingv1beta1.CapNodeSize, "memory": autoscalingv1beta1.CapLimitRange}},
	} {
		got := ContainerRecommendation("app", recommender.Recommendation{
			CPU: recommender.Estimate{Target: 1, CappedBy: test.cpu}, Memory: recommender.Estimate{Target: 1, CappedBy: test.memory},
		})
		assert.Equal(t, test.want, got.CappedBy, name)
	}
}

func TestPodTargetIsSumOfContainers(t *testing.T) {
	t.Parallel()
	of := func(target corev1.ResourceList) autoscalingv1beta1.ContainerRecommendation {
		return autoscalingv1beta1.ContainerRecommendation{Target: target, UpperBound: list("64", "1Ti")}
	}
	for name, test := range map[string]struct {
		targets []autoscalingv1beta1.ContainerRecommendation
		want    string
	}{
		"no container":       {nil, `null`},
		"one without target": {[]autoscalingv1beta1.ContainerRecommendation{of(nil)}, `null`},
		"one":                {[]autoscalingv1beta1.ContainerRecommendation{of(list("145m", "363Mi"))}, `{"cpu": "145m", "memory": "363Mi"}`},
		"several": {
			[]autoscalingv1beta1.ContainerRecommendation{of(list("145m", "363Mi")), of(list("1855m", "661Mi"))},
			`{"cpu": "2", "memory": "1Gi"}`},
		"containers with one resource each": {
			[]autoscalingv1beta1.ContainerRecommendation{of(list("", "363Mi")), of(list("145m", "")), of(list("", "1Mi"))},
			`{"cpu": "145m", "memory": "364Mi"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := json.Marshal(test.targets)
			require.NoError(t, err)
			got, err := json.Marshal(PodTarget(test.targets))
			require.NoError(t, err)
			assert.JSONEq(t, test.want, string(got))
			after, err := json.Marshal(test.targets)
			require.NoError(t, err)
			assert.JSONEq(t, string(before), string(after), "the containers' targets must not change")
		})
	}
}

// published is a recommendation in a scaler's status.
func published() autoscalingv1beta1.ContainerRecommendation {
	return autoscalingv1beta1.ContainerRecommendation{
		ContainerName: "app", Samples: 100, Span: metav1.Duration{Duration: time.Hour},
		Target: list("100m", "100Mi"), UncappedTarget: list("60m", "60Mi"),
		LowerBound: list("0", "60Mi"), UpperBound: list("300m", "1Gi"),
		CappedBy: map[corev1.ResourceName]autoscalingv1beta1.Cap{corev1.ResourceCPU: autoscalingv1beta1.CapPodMinimum},
	}
}

func TestChangedIgnoresSmallMoves(t *testing.T) {
	t.Parallel()
	type recommendation = autoscalingv1beta1.ContainerRecommendation
	for name, test := range map[string]struct {
		change  func(*recommendation)
		changed bool
	}{
		"nothing":                                                {func(*recommendation) {}, false},
		"samples and span":                                       {func(r *recommendation) { r.Samples, r.Span.Duration = 1e6, 1e6*time.Hour }, false},
		"same amounts in another notation":                       {func(r *recommendation) { r.Target = list("0.1", "102400Ki") }, false},
		"capped target up 1 %":                                   {func(r *recommendation) { r.Target = list("101m", "100Mi") }, true},
		"capped target down 1 %":                                 {func(r *recommendation) { r.Target = list("99m", "100Mi") }, true},
		"memory target up nearly 5 %":                            {func(r *recommendation) { r.Target = list("100m", "110100479") }, false},
		"memory target up 5 %":                                   {func(r *recommendation) { r.Target = list("100m", "105Mi") }, true},
		"memory target down nearly 5 %":                          {func(r *recommendation) { r.Target = list("100m", "99614721") }, false},
		"memory target down 5 %":                                 {func(r *recommendation) { r.Target = list("100m", "95Mi") }, true},
		"uncapped target up nearly 5 %":                          {func(r *recommendation) { r.UncappedTarget = list("62m", "60Mi") }, false},
		"uncapped target up 5 %":                                 {func(r *recommendation) { r.UncappedTarget = list("63m", "60Mi") }, true},
		"upper bound up nearly 10 %":                             {func(r *recommendation) { r.UpperBound = list("329m", "1Gi") }, false},
		"upper bound up 10 %":                                    {func(r *recommendation) { r.UpperBound = list("330m", "1Gi") }, true},
		"upper bound down 10 %":                                  {func(r *recommendation) { r.UpperBound = list("270m", "1Gi") }, true},
		"lower bound up nearly 10 %":                             {func(r *recommendation) { r.LowerBound = list("0", "69206015") }, false},
		"lower bound up 10 %":                                    {func(r *recommendation) { r.LowerBound = list("0", "66Mi") }, true},
		"lower bound up, but still at half the target":           {func(r *recommendation) { r.LowerBound = list("50m", "60Mi") }, false},
		"lower bound up to more than half the target":            {func(r *recommendation) { r.LowerBound = list("55m", "60Mi") }, true},
		"lower bound down to less than half the target":          {func(r *recommendation) { r.LowerBound = list("0", "10Mi") }, true},
		"upper bound up, but already above ten times the target": {func(r *recommendation) { r.UpperBound = list("300m", "500Ti") }, false},
		"upper bound up to more than ten times the target":       {func(r *recommendation) { r.UpperBound = list("64", "1Gi") }, true},
		"upper bound down to nine times the target":              {func(r *recommendation) { r.UpperBound = list("300m", "900Mi") }, true},
		"new resource":                                           {func(r *recommendation) { r.Target = list("100m", "100Mi"); r.Target["disk"] = resource.MustParse("1") }, true},
		"resource without target":                                {func(r *recommendation) { r.Target = list("100m", "") }, true},
		"bound of another resource": {func(r *recommendation) {
			r.LowerBound = corev1.ResourceList{"cpu": {}, "disk": resource.MustParse("60Mi")}
		}, true},
		"cap removed":     {func(r *recommendation) { r.CappedBy = nil }, true},
		"other cap":       {func(r *recommendation) { r.CappedBy["cpu"] = autoscalingv1beta1.CapMinAllowed }, true},
		"cap added":       {func(r *recommendation) { r.CappedBy["memory"] = autoscalingv1beta1.CapNodeSize }, true},
		"other container": {func(r *recommendation) { r.ContainerName = "web" }, true},
		"bounds removed":  {func(r *recommendation) { r.LowerBound, r.UpperBound = nil, nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := published()
			test.change(&current)
			assert.Equal(t, test.changed, Changed([]recommendation{published()}, []recommendation{current}))
		})
	}
}

func TestChangedReportsOtherSetOfContainers(t *testing.T) {
	t.Parallel()
	app, sidecar := published(), published()
	sidecar.ContainerName = "sidecar"
	type recommendations = []autoscalingv1beta1.ContainerRecommendation
	assert.True(t, Changed(nil, recommendations{app}), "first recommendation")
	assert.True(t, Changed(recommendations{app}, nil), "all removed")
	assert.True(t, Changed(recommendations{app}, recommendations{app, sidecar}), "one added")
	assert.True(t, Changed(recommendations{app, sidecar}, recommendations{app}), "one removed")
	assert.False(t, Changed(recommendations{app, sidecar}, recommendations{app, sidecar}), "same containers")
	assert.False(t, Changed(nil, recommendations{}), "none before and after")
}
