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

func TestAContainersRecommendationHasTheFiguresOfTheRecommender(t *testing.T) {
	t.Parallel()
	cpu := recommender.Estimate{Target: 1200, LowerBound: 0, UpperBound: 4000, UncappedTarget: 145}
	memory := recommender.Estimate{Target: 363 * mebi, LowerBound: 250 * mebi, UpperBound: 1<<30 + 1, UncappedTarget: 1 << 30}
	for name, test := range map[string]struct {
		of   recommender.Recommendation
		want string
	}{
		"both resources": {
			recommender.Recommendation{CPU: cpu, Memory: memory, Samples: 10081, Span: 7 * 24 * time.Hour},
			`{"containerName": "app", "samples": 10081, "span": "168h0m0s",
			  "target": {"cpu": "1200m", "memory": "363Mi"}, "lowerBound": {"cpu": "0", "memory": "250Mi"},
			  "upperBound": {"cpu": "4", "memory": "1073741825"}, "uncappedTarget": {"cpu": "145m", "memory": "1Gi"}}`,
		},
		"memory alone": {
			recommender.Recommendation{Memory: memory},
			`{"containerName": "app", "target": {"memory": "363Mi"}, "lowerBound": {"memory": "250Mi"},
			  "upperBound": {"memory": "1073741825"}, "uncappedTarget": {"memory": "1Gi"}}`,
		},
		"CPU alone": {
			recommender.Recommendation{CPU: cpu, Samples: 1},
			`{"containerName": "app", "samples": 1, "target": {"cpu": "1200m"}, "lowerBound": {"cpu": "0"},
			  "upperBound": {"cpu": "4"}, "uncappedTarget": {"cpu": "145m"}}`,
		},
		"nothing": {recommender.Recommendation{}, `{"containerName": "app", "target": null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(ContainerRecommendation("app", test.of))
			require.NoError(t, err)
			assert.JSONEq(t, test.want, string(got))
		})
	}
}

func TestAContainersRecommendationSaysWhatCappedEachResource(t *testing.T) {
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

func TestAPodsTargetIsTheSumOfItsContainers(t *testing.T) {
	t.Parallel()
	of := func(target corev1.ResourceList) autoscalingv1beta1.ContainerRecommendation {
		return autoscalingv1beta1.ContainerRecommendation{Target: target, UpperBound: list("64", "1Ti")}
	}
	for name, test := range map[string]struct {
		targets []autoscalingv1beta1.ContainerRecommendation
		want    string
	}{
		"no container":               {nil, `null`},
		"one of which nothing known": {[]autoscalingv1beta1.ContainerRecommendation{of(nil)}, `null`},
		"one":                        {[]autoscalingv1beta1.ContainerRecommendation{of(list("145m", "363Mi"))}, `{"cpu": "145m", "memory": "363Mi"}`},
		"several": {
			[]autoscalingv1beta1.ContainerRecommendation{of(list("145m", "363Mi")), of(list("1855m", "661Mi"))},
			`{"cpu": "2", "memory": "1Gi"}`},
		"some of one resource": {
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
			assert.JSONEq(t, string(before), string(after), "the containers' targets stay as they are")
		})
	}
}

// told is a recommendation that was told before.
func told() autoscalingv1beta1.ContainerRecommendation {
	return autoscalingv1beta1.ContainerRecommendation{
		ContainerName: "app", Samples: 100, Span: metav1.Duration{Duration: time.Hour},
		Target: list("100m", "100Mi"), UncappedTarget: list("60m", "60Mi"),
		LowerBound: list("0", "60Mi"), UpperBound: list("300m", "1Gi"),
		CappedBy: map[corev1.ResourceName]autoscalingv1beta1.Cap{corev1.ResourceCPU: autoscalingv1beta1.CapPodMinimum},
	}
}

func TestOnlyWhatHasMovedEnoughIsNews(t *testing.T) {
	t.Parallel()
	type recommendation = autoscalingv1beta1.ContainerRecommendation
	for name, test := range map[string]struct {
		change func(*recommendation)
		isNews bool
	}{
		"nothing":                           {func(*recommendation) {}, false},
		"samples and span":                  {func(r *recommendation) { r.Samples, r.Span.Duration = 1e6, 1e6*time.Hour }, false},
		"the same in another notation":      {func(r *recommendation) { r.Target = list("0.1", "102400Ki") }, false},
		"target that is capped up 1 %":      {func(r *recommendation) { r.Target = list("101m", "100Mi") }, true},
		"target that is capped down 1 %":    {func(r *recommendation) { r.Target = list("99m", "100Mi") }, true},
		"target of memory up nearly 5 %":    {func(r *recommendation) { r.Target = list("100m", "110100479") }, false},
		"target of memory up 5 %":           {func(r *recommendation) { r.Target = list("100m", "105Mi") }, true},
		"target of memory down nearly 5 %":  {func(r *recommendation) { r.Target = list("100m", "99614721") }, false},
		"target of memory down 5 %":         {func(r *recommendation) { r.Target = list("100m", "95Mi") }, true},
		"uncapped target up nearly 5 %":     {func(r *recommendation) { r.UncappedTarget = list("62m", "60Mi") }, false},
		"uncapped target up 5 %":            {func(r *recommendation) { r.UncappedTarget = list("63m", "60Mi") }, true},
		"upper bound up nearly 10 %":        {func(r *recommendation) { r.UpperBound = list("329m", "1Gi") }, false},
		"upper bound up 10 %":               {func(r *recommendation) { r.UpperBound = list("330m", "1Gi") }, true},
		"upper bound down 10 %":             {func(r *recommendation) { r.UpperBound = list("270m", "1Gi") }, true},
		"lower bound up nearly 10 %":        {func(r *recommendation) { r.LowerBound = list("0", "69206015") }, false},
		"lower bound up 10 %":               {func(r *recommendation) { r.LowerBound = list("0", "66Mi") }, true},
		"lower bound below half, as before": {func(r *recommendation) { r.LowerBound = list("50m", "60Mi") }, false},
		"lower bound over half":             {func(r *recommendation) { r.LowerBound = list("55m", "60Mi") }, true},
		"lower bound below half":            {func(r *recommendation) { r.LowerBound = list("0", "10Mi") }, true},
		"upper bound over ten times, still": {func(r *recommendation) { r.UpperBound = list("300m", "500Ti") }, false},
		"upper bound over ten times":        {func(r *recommendation) { r.UpperBound = list("64", "1Gi") }, true},
		"upper bound down to nine times":    {func(r *recommendation) { r.UpperBound = list("300m", "900Mi") }, true},
		"a resource that was not known":     {func(r *recommendation) { r.Target = list("100m", "100Mi"); r.Target["disk"] = resource.MustParse("1") }, true},
		"a resource that is not known":      {func(r *recommendation) { r.Target = list("100m", "") }, true},
		"another resource": {func(r *recommendation) {
			r.LowerBound = corev1.ResourceList{"cpu": {}, "disk": resource.MustParse("60Mi")}
		}, true},
		"a cap less":                         {func(r *recommendation) { r.CappedBy = nil }, true},
		"another cap":                        {func(r *recommendation) { r.CappedBy["cpu"] = autoscalingv1beta1.CapMinAllowed }, true},
		"a cap more":                         {func(r *recommendation) { r.CappedBy["memory"] = autoscalingv1beta1.CapNodeSize }, true},
		"another container in its place":     {func(r *recommendation) { r.ContainerName = "web" }, true},
		"no bounds, which there were before": {func(r *recommendation) { r.LowerBound, r.UpperBound = nil, nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := told()
			test.change(&now)
			assert.Equal(t, test.isNews, News([]recommendation{told()}, []recommendation{now}))
		})
	}
}

func TestAnotherSetOfContainersIsNews(t *testing.T) {
	t.Parallel()
	app, sidecar := told(), told()
	sidecar.ContainerName = "sidecar"
	type recommendations = []autoscalingv1beta1.ContainerRecommendation
	assert.True(t, News(nil, recommendations{app}), "the first")
	assert.True(t, News(recommendations{app}, nil), "none any more")
	assert.True(t, News(recommendations{app}, recommendations{app, sidecar}), "one more")
	assert.True(t, News(recommendations{app, sidecar}, recommendations{app}), "one less")
	assert.False(t, News(recommendations{app, sidecar}, recommendations{app, sidecar}), "the same")
	assert.False(t, News(nil, recommendations{}), "none, as before")
}
