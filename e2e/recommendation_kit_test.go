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

// usageOf returns the pod annotations, in pairs, that set the usage of a simulated container.
func usageOf(container string, used consumption) []string {
	return []string{
		"usage-cpu.kwok.x-k8s.io/" + container, fmt.Sprintf("%vm", used.cpu),
		"usage-memory.kwok.x-k8s.io/" + container, fmt.Sprintf("%vMi", used.memory),
	}
}

// setContainers replaces a Deployment's containers. The values are their usage.
func setContainers(deployment *appsv1.Deployment, containers map[string]consumption) {
	template := &deployment.Spec.Template
	image := template.Spec.Containers[0].Image
	template.Annotations, template.Spec.Containers = map[string]string{}, nil
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		maps.Copy(template.Annotations, pairs(usageOf(name, containers[name])))
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: name, Image: image})
	}
}

// newRecommender returns a scaler that only recommends.
func newRecommender(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	scaler := newScaler(namespace, name, deployment)
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
	return scaler
}

// createScaled creates a scaler that only recommends, and then its Deployment, so that the manager
// misses no sample.
func createScaled(t *testing.T, deployment *appsv1.Deployment) *autoscalingv1beta1.VerticalScaler {
	t.Helper()
	scaler := create(t, newRecommender(deployment.Namespace, deployment.Name, deployment.Name))
	create(t, deployment)
	return scaler
}

// startScaledPod starts a pod of a Deployment that has a scaler. Its container "app" requests this number
// of mebibytes and uses nearly nothing. It returns when the scaler has found the pod.
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

// oomKilledTarget returns the target for a container that was OOM killed once while it used less than
// its request in mebibytes. An OOM kill adds a fifth of the request, and at least 100Mi.
func oomKilledTarget(t require.TestingT, request float64) corev1.ResourceList {
	return targetFor(t, consumption{memory: max(request*1.2, request+100)}, 1)
}

// countedOOMKills returns the number of OOM kills that the current manager has counted.
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

// waitForUsageRead waits until a manager has read usage that the metrics API measured after this time in
// a namespace's pods.
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
	// The next reading to end may have started before the sample was available.
	eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, readings(c), before+2) })
}

// requireRecommendations requires that a scaler has recommendations for exactly these containers.
func requireRecommendations(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, containers ...string) {
	requireCondition(t, refresh(t, scaler).Status.Conditions, "RecommendationReady", metav1.ConditionTrue, "Recommended")
	requireCondition(t, scaler.Status.Conditions, "Ready", metav1.ConditionTrue, "Recommended")
	var names []string
	for i := range scaler.Status.Recommendations {
		names = append(names, scaler.Status.Recommendations[i].ContainerName)
	}
	require.ElementsMatch(t, containers, names)
}

// waitForRecommendations waits until a scaler recommends CPU and memory for exactly these containers.
func waitForRecommendations(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, containers ...string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		requireRecommendations(c, scaler, containers...)
		for _, container := range containers {
			require.Len(c, recommendationFor(c, scaler, container).Target, 2, container)
		}
	})
}

// recommendationFor returns a container's recommendation from the status that was read last.
func recommendationFor(
	t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, container string,
) *autoscalingv1beta1.ContainerRecommendation {
	i := slices.IndexFunc(scaler.Status.Recommendations, func(r autoscalingv1beta1.ContainerRecommendation) bool {
		return r.ContainerName == container
	})
	require.GreaterOrEqual(t, i, 0, "no recommendation for %s", container)
	return &scaler.Status.Recommendations[i]
}

// targetFor returns the target for a container with constant usage, in a pod with this number of
// containers.
func targetFor(t require.TestingT, used consumption, containers int) corev1.ResourceList {
	history := recommender.New(recommender.DefaultHalfLife)
	require.NoError(t, history.AddCPU(time.Now(), used.cpu/1000))
	require.NoError(t, history.AddMemory(time.Now(), int64(used.memory)<<20))
	return amountsOf(history.Recommend(recommender.DefaultPolicy(containers)))
}

// memoryOf returns the memory in its printed form.
func memoryOf(amounts corev1.ResourceList) string { return amounts.Memory().String() }

func amountsOf(recommendation recommender.Recommendation) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(recommendation.CPU.Target, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(recommendation.Memory.Target, resource.BinarySI),
	}
}

// requireTarget requires the target for a usage: exactly for memory, and approximately for CPU, which
// metrics-server does not measure exactly.
func requireTarget(
	t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler, container string, used consumption,
) {
	want := targetFor(t, used, len(scaler.Status.Recommendations))
	got := recommendationFor(t, scaler, container).Target
	require.Equal(t, want.Memory().String(), got.Memory().String(), "memory of %s", container)
	require.InEpsilon(t, want.Cpu().AsApproximateFloat64(), got.Cpu().AsApproximateFloat64(), 0.2, "CPU of %s", container)
}

// conditionMessage returns a condition's message from the status that was read last.
func conditionMessage(scaler *autoscalingv1beta1.VerticalScaler, conditionType string) string {
	if condition := meta.FindStatusCondition(scaler.Status.Conditions, conditionType); condition != nil {
		return condition.Message
	}
	return ""
}

// observer reads the usage of a namespace's pods and builds histories from it, as the manager does.
type observer struct {
	source    usage.Source
	filter    *usage.Filter
	histories map[string]*recommender.History // by container
}

func newObserver(t *testing.T, namespace string) *observer {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(env.config)
	require.NoError(t, err)
	source, err := usage.NewMetricsAPI(env.config, httpClient, namespace)
	require.NoError(t, err)
	return &observer{source: source, filter: usage.NewFilter(time.Hour), histories: map[string]*recommender.History{}}
}

// observe adds all new samples to the histories.
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

// targets returns each container's target for all samples so far.
func (o *observer) targets() map[string]corev1.ResourceList {
	targets := map[string]corev1.ResourceList{}
	for container, history := range o.histories {
		targets[container] = amountsOf(history.Recommend(recommender.DefaultPolicy(len(o.histories))))
	}
	return targets
}

// requireTargets requires that a scaler recommends exactly the targets for all samples so far.
func (o *observer) requireTargets(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler) {
	o.observe(t)
	require.NotEmpty(t, o.histories)
	for container, want := range o.targets() {
		got := recommendationFor(t, scaler, container).Target
		require.Equal(t, want.Cpu().String(), got.Cpu().String(), "CPU of %s", container)
		require.Equal(t, memoryOf(want), memoryOf(got), "memory of %s", container)
	}
}
