package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/e2e/cluster"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

// usageOf returns the annotations, in pairs, that have a pod's container use so much.
func usageOf(container string, used consumption) []string {
	return []string{
		"usage-cpu.kwok.x-k8s.io/" + container, fmt.Sprintf("%vm", used.cpu),
		"usage-memory.kwok.x-k8s.io/" + container, fmt.Sprintf("%vMi", used.memory),
	}
}

// setContainers has a Deployment's pods run these containers, each of which uses so much.
func setContainers(deployment *appsv1.Deployment, containers map[string]consumption) {
	template := &deployment.Spec.Template
	image := template.Spec.Containers[0].Image
	template.Annotations, template.Spec.Containers = map[string]string{}, nil
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		maps.Copy(template.Annotations, pairs(usageOf(name, containers[name])))
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: name, Image: image})
	}
}

// newRecommender returns a scaler that recommends and leaves pods as they are.
func newRecommender(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	scaler := newScaler(namespace, name, deployment)
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
	return scaler
}

// createScaled creates a scaler that only recommends and then its target, of which no sample
// is missed.
func createScaled(t *testing.T, deployment *appsv1.Deployment) *autoscalingv1beta1.VerticalScaler {
	t.Helper()
	scaler := create(t, newRecommender(deployment.Namespace, deployment.Name, deployment.Name))
	create(t, deployment)
	return scaler
}

// startScaledPod runs a pod of a Deployment that has a scaler, with one container that requests so
// many mebibytes and uses next to nothing, and waits until the scaler knows of the pod.
func startScaledPod(t *testing.T, namespace string, request float64) (*autoscalingv1beta1.VerticalScaler, *corev1.Pod) {
	t.Helper()
	deployment := newDeployment(namespace, "web", 1)
	setContainers(deployment, map[string]consumption{"app": {1, 1}})
	deployment.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%vMi", request)),
	}
	scaler := createScaled(t, deployment)
	waitForPods(t, deployment, 1)
	eventually(t, func(c *assert.CollectT) {
		condition := meta.FindStatusCondition(refresh(c, scaler).Status.Conditions, "RecommendationReady")
		require.NotNil(c, condition)
		require.Contains(c, []string{"NoSamples", "Recommended"}, condition.Reason)
	})
	return scaler, &listPods(t, namespace)[0]
}

// oomKilledTarget returns the target of a container that was killed for lack of memory while it
// requested so many mebibytes and used less: a fifth more is needed, and 100Mi at least.
func oomKilledTarget(t require.TestingT, request float64) corev1.ResourceList {
	return targetFor(t, consumption{memory: max(request*1.2, request+100)}, 1)
}

// countedOOMKills returns how many OOM kills the manager has counted.
func countedOOMKills(t *testing.T) float64 {
	t.Helper()
	namespace := newNamespace(t)
	token := newToken(t, namespace, "scraper")
	bindMetricsReader(t, namespace, "scraper")
	var counted float64
	eventually(t, func(c *assert.CollectT) {
		status, body := scrape(c, token)
		require.Equal(c, 200, status)
		counted = metric(c, body, "upright_oom_kills_total")
	})
	return counted
}

// waitForUsageRead waits until a manager has read usage of a namespace's pods that was measured after
// a time.
func waitForUsageRead(t *testing.T, manager *cluster.Manager, namespace string, after time.Time) {
	t.Helper()
	observer := newObserver(t, namespace)
	eventually(t, func(c *assert.CollectT) {
		samples, err := observer.source.Read(context.Background())
		require.NoError(c, err)
		require.True(c, slices.ContainsFunc(samples, func(s usage.Sample) bool { return s.Time.Truncate(time.Second).After(after) }))
	})
	own := newNamespace(t)
	token := newToken(t, own, "scraper")
	bindMetricsReader(t, own, "scraper")
	readings := func(t require.TestingT) float64 {
		status, body := scrapeFrom(t, manager, token)
		require.Equal(t, 200, status)
		return metric(t, body, "upright_usage_cycle_duration_seconds_count")
	}
	var before float64
	eventually(t, func(c *assert.CollectT) { before = readings(c) })
	// The first reading to end now may have begun before.
	eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, readings(c), before+2) })
}

// requireRecommendations requires that a scaler recommends for just these containers, which use
// so much now.
func requireRecommendations(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, containers ...string) {
	requireCondition(t, refresh(t, scaler).Status.Conditions, "RecommendationReady", metav1.ConditionTrue, "Recommended")
	requireCondition(t, scaler.Status.Conditions, "Ready", metav1.ConditionTrue, "Recommended")
	var names []string
	for i := range scaler.Status.Recommendations {
		names = append(names, scaler.Status.Recommendations[i].ContainerName)
	}
	require.ElementsMatch(t, containers, names)
}

// waitForRecommendations waits until a scaler recommends CPU and memory for just these containers.
func waitForRecommendations(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, containers ...string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		requireRecommendations(c, scaler, containers...)
		for _, container := range containers {
			require.Len(c, recommendationFor(c, scaler, container).Target, 2, container)
		}
	})
}

// recommendationFor returns what a scaler, as it was read last, recommends for a container.
func recommendationFor(
	t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, container string,
) *autoscalingv1beta1.ContainerRecommendation {
	i := slices.IndexFunc(scaler.Status.Recommendations, func(r autoscalingv1beta1.ContainerRecommendation) bool {
		return r.ContainerName == container
	})
	require.GreaterOrEqual(t, i, 0, "there is no recommendation for %s", container)
	return &scaler.Status.Recommendations[i]
}

// targetFor returns the target of a container that used so much all the time, in a pod of so
// many containers.
func targetFor(t require.TestingT, used consumption, containers int) corev1.ResourceList {
	history := recommender.New(recommender.DefaultHalfLife)
	require.NoError(t, history.AddCPU(time.Now(), used.cpu/1000))
	require.NoError(t, history.AddMemory(time.Now(), int64(used.memory)<<20))
	return amountsOf(history.Recommend(recommender.DefaultPolicy(containers)))
}

// memoryOf returns an amount of memory as it is shown.
func memoryOf(amounts corev1.ResourceList) string { return amounts.Memory().String() }

func amountsOf(recommendation recommender.Recommendation) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(recommendation.CPU.Target, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(recommendation.Memory.Target, resource.BinarySI),
	}
}

// requireTarget requires that a container's target is that of a usage: the memory exactly, and
// the CPU, which metrics-server does not measure exactly, nearly.
func requireTarget(
	t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, container string, used consumption,
) {
	want := targetFor(t, used, len(scaler.Status.Recommendations))
	got := recommendationFor(t, scaler, container).Target
	require.Equal(t, want.Memory().String(), got.Memory().String(), "memory of %s", container)
	require.InEpsilon(t, want.Cpu().AsApproximateFloat64(), got.Cpu().AsApproximateFloat64(), 0.2, "CPU of %s", container)
}

// conditionMessage returns what a scaler, as it was read last, says in a condition.
func conditionMessage(scaler *autoscalingv1beta1.VerticalScaler, conditionType string) string {
	if condition := meta.FindStatusCondition(scaler.Status.Conditions, conditionType); condition != nil {
		return condition.Message
	}
	return ""
}

// observer reads the usage of a namespace's pods as the manager does.
type observer struct {
	source    usage.Source
	filter    *usage.Filter
	histories map[string]*recommender.History // by container
}

func newObserver(t *testing.T, namespace string) *observer {
	t.Helper()
	client, err := rest.HTTPClientFor(env.config)
	require.NoError(t, err)
	source, err := usage.NewMetricsAPI(env.config, client, namespace)
	require.NoError(t, err)
	return &observer{source: source, filter: usage.NewFilter(time.Hour), histories: map[string]*recommender.History{}}
}

// observe adds the samples that have not been seen before.
func (o *observer) observe(t require.TestingT) {
	samples, err := o.source.Read(context.Background())
	require.NoError(t, err)
	fresh, _ := o.filter.Fresh(samples, time.Now())
	for i := range fresh {
		history := o.histories[fresh[i].Container]
		if history == nil {
			history = recommender.New(recommender.DefaultHalfLife)
			o.histories[fresh[i].Container] = history
		}
		require.NoError(t, history.AddCPU(fresh[i].Time, fresh[i].CPU))
		require.NoError(t, history.AddMemory(fresh[i].Time, fresh[i].Memory))
	}
}

// targets returns the target of each container that follows from all samples so far.
func (o *observer) targets() map[string]corev1.ResourceList {
	targets := map[string]corev1.ResourceList{}
	for container, history := range o.histories {
		targets[container] = amountsOf(history.Recommend(recommender.DefaultPolicy(len(o.histories))))
	}
	return targets
}

// requireTargets requires that what a scaler recommends is exactly what follows from all the
// samples that there were.
func (o *observer) requireTargets(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler) {
	o.observe(t)
	require.NotEmpty(t, o.histories)
	for container, want := range o.targets() {
		got := recommendationFor(t, scaler, container).Target
		require.Equal(t, want.Cpu().String(), got.Cpu().String(), "CPU of %s", container)
		require.Equal(t, memoryOf(want), memoryOf(got), "memory of %s", container)
	}
}
