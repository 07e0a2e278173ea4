package controllers

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestAScalerThatStepsInHasAllThatWasLearnedAtOnce(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	elder, pod := measured(t, namespace, "web", "app")
	nextSecond(t, elder)
	younger := create(t, newScaler(namespace, "a-younger", "web"))
	var source meter
	samples := uses(pod, "app", 0.3, 700, 5)
	source.show(samples...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, elder, isTrue, "Recommended")
	status := scalerIs(t, younger, isFalse, "Conflicted")
	assertCondition(t, status.Conditions, "RecommendationReady", isFalse, "Conflicted")
	assert.Empty(t, status.Recommendations)
	assert.Empty(t, status.PodTarget)

	source.show() // There is nothing to learn any more.
	source.settle(t)
	remove(t, elder)
	status = scalerIs(t, younger, isTrue, "Recommended")
	assertSame(t, figuresOf(t, samples, "app"), status.Recommendations)
}

func TestASuspendedScalerKeepsItsRecommendationAndLearnsNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	before := uses(pod, "app", 0.3, 300, 1)
	source.show(before...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	recommended := scalerIs(t, scaler, isTrue, "Recommended")

	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	status := scalerIs(t, scaler, isFalse, "Suspended")
	assertCondition(t, status.Conditions, "RecommendationReady", isTrue, "Suspended")
	source.show(uses(pod, "app", 3, 3000, 1)...)
	killed(t, pod, "app", 1)
	source.settle(t)
	keepsRecommending(t, scaler)
	assert.Equal(t, recommended.Recommendations, refresh(t, scaler).Status.Recommendations)
	assert.Equal(t, recommended.PodTarget, scaler.Status.PodTarget)
	assert.InDelta(t, 1, value(t, m, "upright_usage_samples_attributed_total"), 0)
	assert.Zero(t, value(t, m, "upright_oom_kills_total"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, map[string]int{"Recommended": 1, "Suspended": 1}, told(c, scaler))
	}, soon, often)
	remove(t, pod)

	next := create(t, newPod(namespace, "web", "bbbbb", "app"))
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	scalerIs(t, scaler, isTrue, "Recommended")
	after := uses(next, "app", 0.1, 600, 1)
	source.show(after...)
	recommends(t, scaler, figuresOf(t, slices.Concat(before, after), "app")...)
}

func TestARecommendationOutlastsItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app", "log")
	var source meter
	samples := slices.Concat(uses(pod, "app", 0.3, 300, 4), uses(pod, "log", 0.1, 100, 4))
	source.show(samples...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	before := scalerIs(t, scaler, isTrue, "Recommended")
	source.show()

	remove(t, foreign(namespace, "web"))
	remove(t, pod)
	away := scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assertCondition(c, refresh(c, scaler).Status.Conditions, "RecommendationReady", isTrue, "NoPods")
	}, soon, often)
	assert.Equal(t, before.Recommendations, away.Recommendations)

	create(t, foreign(namespace, "web"))
	create(t, newPod(namespace, "web", "bbbbb", "app", "log"))
	back := scalerIs(t, scaler, isTrue, "Recommended")
	assert.Equal(t, before.Recommendations, back.Recommendations)
	keepsRecommending(t, scaler)
}

func TestAScalerThatTurnsToAnotherDeploymentStartsAnew(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	create(t, foreign(namespace, "shop"))
	podOfShop := create(t, newPod(namespace, "shop", "aaaaa", "app"))
	var source meter
	source.show(uses(pod, "app", 0.8, 800, 4)...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")

	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "shop" })
	status := scalerIs(t, scaler, isFalse, "NoSamples")
	assert.Empty(t, status.Recommendations, "what is known of one Deployment says nothing of another")
	assert.Empty(t, status.PodTarget)
	samples := uses(podOfShop, "app", 0.2, 300, 1)
	source.show(samples...)
	recommends(t, scaler, figuresOf(t, samples, "app")...)

	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "nobody" })
	status = scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	assertCondition(t, status.Conditions, "RecommendationReady", isFalse, "NoPods")
	assert.Empty(t, status.Recommendations)
}
