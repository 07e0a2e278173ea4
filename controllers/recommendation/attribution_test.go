package controllers

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

func TestUsageOfADeploymentsPodsBecomesItsRecommendation(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app", "log")
	other := create(t, newPod(namespace, "web", "bbbbb", "app", "log"))
	samples := slices.Concat(
		uses(pod, "app", 0.3, 700, 9), uses(pod, "log", 0.02, 20, 9),
		uses(other, "app", 0.5, 900, 9), uses(other, "log", 0.03, 30, 9),
	)
	var source meter
	source.show(samples...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})

	status := scalerIs(t, scaler, isTrue, "Recommended")
	assertCondition(t, status.Conditions, "RecommendationReady", isTrue, "Recommended")
	want := figuresOf(t, samples, "app", "log")
	assertSame(t, want, status.Recommendations)
	assert.Equal(t, int64(18), status.Recommendations[0].Samples)
	assert.Equal(t, 8*time.Minute, status.Recommendations[0].Span.Round(time.Minute))
	assert.Greater(t, want[0].Target.Memory().Value(), int64(900*mebi), "the greatest peak and a margin")
	sum := want[0].Target.Memory().DeepCopy()
	sum.Add(*want[1].Target.Memory())
	assert.Zero(t, sum.Cmp(*status.PodTarget.Memory()), "want %s, got %s", &sum, status.PodTarget.Memory())
}

func TestASampleIsCountedOnceHoweverOftenItIsRead(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.3, 700, 5)...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	source.settle(t)
	source.settle(t)
	assert.InDelta(t, 5, value(t, m, "upright_usage_samples_attributed_total"), 0)
	assert.GreaterOrEqual(t, value(t, m, "upright_usage_samples_dropped_total", "seen"), 10.0)
	m.stop()
	assert.Equal(t, int64(5), checkpointed(t, scaler, "app").Recommend(recommender.DefaultPolicy(1)).Samples)
}

func TestUsageOfPodsThatAreNotTheDeploymentsIsNotAttributed(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	scaler, _ := measured(t, namespace, "web", "app")
	api, pod := measured(t, namespace, "web-api", "app")
	orphan := newPod(namespace, "web", "orphn", "app")
	orphan.OwnerReferences = nil
	unlabelled := newPod(namespace, "web", "nolbl", "app")
	unlabelled.Labels = nil
	ofAnotherHash := newPod(namespace, "web", "other", "app")
	ofAnotherHash.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "6d"
	ofAStatefulSet := newPod(namespace, "web", "state", "app")
	ofAStatefulSet.OwnerReferences[0].Kind = "StatefulSet"
	notControlled := newPod(namespace, "web", "owned", "app")
	notControlled.OwnerReferences[0].Controller = nil
	samples := uses(pod, "app", 0.2, 300, 1)
	for _, stranger := range []*corev1.Pod{
		orphan, unlabelled, ofAnotherHash, ofAStatefulSet, notControlled,
		newPod(elsewhere, "web", "aaaaa", "app"), // The name of one of ours.
	} {
		samples = append(samples, uses(create(t, stranger), "app", 0.7, 900, 1)...)
	}
	samples = append(samples, uses(newPod(namespace, "web", "aaaaa"), "of-no-container", 0.7, 900, 1)...)
	var source meter
	source.show(samples...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})

	recommends(t, api, figuresOf(t, samples[:1], "app")...)
	status := scalerIs(t, scaler, isFalse, "NoSamples")
	assert.Equal(t, `The usage of "app" has not been measured yet: it usually is within two minutes of its start.`,
		condition(status, "Ready").Message)
	assert.Empty(t, status.Recommendations)
	assert.InDelta(t, 1, value(t, m, "upright_usage_samples_attributed_total"), 0)
	assert.InDelta(t, 7, value(t, m, "upright_usage_samples_dropped_total", "unattributed"), 0)
}

func TestASidecarIsSizedAndAnOrdinaryInitContainerIsNot(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	create(t, foreign(namespace, "web"))
	scaler := create(t, newScaler(namespace, "web", "web"))
	pod := newPod(namespace, "web", "aaaaa", "app")
	sidecar := newContainer("proxy")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{newContainer("migrate"), sidecar}
	create(t, pod)
	samples := slices.Concat(uses(pod, "migrate", 1, 4000, 3), uses(pod, "proxy", 0.1, 150, 3), uses(pod, "app", 0.2, 300, 3))
	var source meter
	source.show(samples...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	status := scalerIs(t, scaler, isTrue, "Recommended")
	assertSame(t, figuresOf(t, samples, "proxy", "app"), status.Recommendations)
	assert.InDelta(t, 3, value(t, m, "upright_usage_samples_dropped_total", "unattributed"), 0)
}

// nextPod creates a pod that is younger than another, with other containers.
func nextPod(t *testing.T, before *corev1.Pod, suffix string, containers ...string) *corev1.Pod {
	t.Helper()
	nextSecond(t, before)
	return create(t, newPod(before.Namespace, before.Labels["app"], suffix, containers...))
}

func TestDuringARolloutTheNewestPodSaysWhichContainersAreSized(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := measured(t, namespace, "web", "app", "old")
	var samples []usage.Sample
	var source meter
	measure := func(more ...usage.Sample) {
		samples = append(samples, more...)
		source.show(more...)
	}
	measure(slices.Concat(uses(first, "app", 0.2, 300, 1), uses(first, "old", 0.6, 600, 1))...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	recommends(t, scaler, figuresOf(t, samples, "app", "old")...)

	second := nextPod(t, first, "bbbbb", "app", "new")
	status := scalerIs(t, scaler, isFalse, "NoSamples")
	assert.Contains(t, condition(status, "RecommendationReady").Message, `"new"`)
	assert.NotContains(t, condition(status, "RecommendationReady").Message, `"app"`)
	appOfTwo := figures("app", historyOf(t, "app", samples...), 2)
	recommends(t, scaler, appOfTwo)

	measure(uses(second, "new", 0.4, 500, 1)...)
	scalerIs(t, scaler, isTrue, "Recommended")
	recommends(t, scaler, figuresOf(t, samples, "app", "new")...)

	nextPod(t, second, "ccccc", "old", "app")
	scalerIs(t, scaler, isTrue, "Recommended")
	recommends(t, scaler, figuresOf(t, samples, "old", "app")...)
}

func TestAPodThatEndedOrIsBeingDeletedDoesNotSayWhichContainersAreSized(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, first := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(first, "app", 0.2, 300, 1)...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")

	evicted := nextPod(t, first, "bbbbb", "app", "new")
	scalerIs(t, scaler, isFalse, "NoSamples")
	evicted.Status.Phase = corev1.PodFailed
	require.NoError(t, env.Client.Status().Update(t.Context(), evicted))
	scalerIs(t, scaler, isTrue, "Recommended")

	deleted := nextPod(t, evicted, "ccccc", "app", "new")
	scalerIs(t, scaler, isFalse, "NoSamples")
	finalize(t, deleted)
	remove(t, deleted)
	scalerIs(t, scaler, isTrue, "Recommended")
	remove(t, first)
	status := scalerIs(t, scaler, isTrue, "NoPods")
	require.Len(t, status.Recommendations, 1)
	assert.Equal(t, "app", status.Recommendations[0].ContainerName)
}

func TestOfPodsOfOneSecondAlwaysTheSameSaysWhichContainersAreSized(t *testing.T) {
	t.Parallel()
	a, b := newPod("one", "web", "aaaaa", "app"), newPod("one", "web", "bbbbb", "app", "new")
	assert.Equal(t,
		client.ObjectKeyFromObject(newest([]corev1.Pod{*a, *b})), client.ObjectKeyFromObject(newest([]corev1.Pod{*b, *a})))
}

func TestAScalerRecommendsTheLeastThatAPodNeedsOnlyAsLongAsItIsAskedTo(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.004, 10, 1)
	var source meter
	source.show(samples...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	recommends(t, scaler, figuresOf(t, samples, "app")...)
	assertSame(t, amounts("25m", "250Mi"), scaler.Status.PodTarget)
	assert.Equal(t, autoscalingv1beta1.CapPodMinimum, scaler.Status.Recommendations[0].CappedBy[corev1.ResourceCPU])

	zero := amounts("0", "0")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{
			PodMinimum: &autoscalingv1beta1.ResourceAmounts{CPU: new(zero[corev1.ResourceCPU]), Memory: new(zero[corev1.ResourceMemory])},
		}
	})
	policy := recommender.DefaultPolicy(1)
	policy.CPU.PodMinimum, policy.Memory.PodMinimum = 0, 0
	recommends(t, scaler, recommendation("app", historyOf(t, "app", samples...), policy))
	assert.Empty(t, scaler.Status.Recommendations[0].CappedBy)
}
