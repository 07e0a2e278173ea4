package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestRecommendationFollowsUsageThatStepsUpAndDown(t *testing.T) {
	t.Parallel()
	low, high := consumption{100, 300}, consumption{500, 600}
	deployment := newDeployment(newNamespace(t), "web", 1)
	setContainers(deployment, map[string]consumption{"app": low})
	observer := newObserver(t, deployment.Namespace)
	scaler := createScaled(t, deployment)
	follows := func(used consumption) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			observer.requireTargets(c, scaler)
			requireTarget(c, scaler, "app", used)
		})
	}

	follows(low)

	pod := &listPods(t, deployment.Namespace)[0]
	annotate(t, pod, usageOf("app", high)...)
	follows(high)

	// Most samples decide on CPU, and those of the many pods that use little timeout are most. Of
	// memory the peak of each day counts: it does not fall within the day.
	annotate(t, pod, usageOf("app", low)...)
	edit(t, deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](30) })
	follows(consumption{cpu: low.cpu, memory: high.memory})
}

func TestRecommendationsOfAPodsContainersAddUpAndSayWhatCappedThem(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app, log, proxy := consumption{200, 400}, consumption{30, 20}, consumption{60, 150}
	deployment := newDeployment(namespace, "web", 2)
	setContainers(deployment, map[string]consumption{"app": app, "log": log})
	template := &deployment.Spec.Template
	maps.Copy(template.Annotations, pairs(usageOf("proxy", proxy)))
	image := template.Spec.Containers[0].Image
	template.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: image},
		{Name: "proxy", Image: image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	scaler := newRecommender(namespace, "web", "web")
	scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{{
		ContainerName: "app", MaxAllowed: &autoscalingv1beta1.ResourceAmounts{Memory: new(resource.MustParse("300Mi"))},
	}}
	create(t, scaler)
	create(t, deployment)

	waitForRecommendations(t, scaler, "app", "log", "proxy")

	requireTarget(t, scaler, "proxy", proxy)
	requireTarget(t, scaler, "log", log)
	capped := recommendationFor(t, scaler, "app")
	uncapped := targetFor(t, app, 3)
	assert.Equal(t, "300Mi", capped.Target.Memory().String())
	assert.Equal(t, uncapped.Memory().String(), capped.UncappedTarget.Memory().String())
	assert.Equal(t, map[corev1.ResourceName]autoscalingv1beta1.Cap{"memory": "MaxAllowed"}, capped.CappedBy)
	assert.Equal(t, map[corev1.ResourceName]autoscalingv1beta1.Cap{"memory": "PodMinimum"}, recommendationFor(t, scaler, "log").CappedBy)
	sum := corev1.ResourceList{}
	for _, recommendation := range scaler.Status.Recommendations {
		for name, amount := range recommendation.Target {
			amount.Add(sum[name])
			sum[name] = amount
		}
	}
	assert.Equal(t, sum.Cpu().String(), scaler.Status.PodTarget.Cpu().String())
	assert.Equal(t, sum.Memory().String(), scaler.Status.PodTarget.Memory().String())
	requireShownByKubectl(t, scaler)
}

// requireShownByKubectl requires that a person sees with kubectl what a scaler, as it was read
// last, recommends.
func requireShownByKubectl(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	table := strings.Split(strings.TrimSpace(kubectl(t, scaler.Namespace, "get", "verticalscalers")), "\n")
	require.Len(t, table, 2)
	assert.Equal(t, []string{"NAME", "DEPLOYMENT", "MODE", "CPU", "MEMORY", "READY", "REASON", "APPLIED", "AGE"}, strings.Fields(table[0]))
	row := strings.Fields(table[1])
	require.Len(t, row, 9)
	target := scaler.Status.PodTarget
	assert.Equal(t, []string{
		scaler.Name, scaler.Spec.DeploymentName, "Off", target.Cpu().String(), target.Memory().String(), "True", "Recommended", "UpdateModeOff",
	}, row[:8])
	assert.Regexp(t, `^([0-9]+[smh])+$`, row[8])

	// Until there is a second sample there is no span, and a status is written for news alone:
	// another margin is news each time.
	margin := int32(15)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		margin += 15
		spec := fmt.Sprintf(`{"spec":{"recommendation":{"marginPercent":%d}}}`, margin)
		require.NoError(c, env.client.Patch(context.Background(), scaler, client.RawPatch(types.MergePatchType, []byte(spec))))
		described, err := env.Kubectl(context.Background(), "describe", "verticalscaler", scaler.Name, "-n", scaler.Namespace)
		require.NoError(c, err)
		text := strings.Join(strings.Fields(described), " ")
		require.Contains(c, text, "Message: Each container has a recommendation from its usage, see status.recommendations.")
		require.Contains(c, text, "Capped By: Memory: MaxAllowed Container Name: app")
		require.Contains(c, text, "Capped By: Memory: PodMinimum Container Name: log")
		require.Regexp(c, `Container Name: app .* Samples: [0-9]+ Span: [0-9]+s .* Container Name: log`, text)
	}, timeout, 5*time.Second)
}

func TestRecommendationFollowsARolloutThatChangesTheContainers(t *testing.T) {
	t.Parallel()
	app, old := consumption{200, 400}, consumption{50, 300}
	less := consumption{20, 100}
	deployment := newDeployment(newNamespace(t), "web", 1)
	setContainers(deployment, map[string]consumption{"app": app, "old": old})
	scaler := createScaled(t, deployment)
	waitForRecommendations(t, scaler, "app", "old")
	requireTarget(t, scaler, "app", app)
	requireTarget(t, scaler, "old", old)
	before := recommendationFor(t, scaler, "app").DeepCopy()

	edit(t, deployment, func(d *appsv1.Deployment) {
		setContainers(d, map[string]consumption{"app": less, "new": less, "extra": less})
	})

	eventually(t, func(c *assert.CollectT) {
		requireCondition(c, refresh(c, scaler).Status.Conditions, "RecommendationReady", metav1.ConditionFalse, "NoSamples")
		require.Equal(c, `The usage of "extra", "new" has not been measured yet: it usually is within two minutes of its start.`,
			conditionMessage(scaler, "RecommendationReady"))
		require.Len(c, scaler.Status.Recommendations, 1)
		require.Equal(c, before.UncappedTarget.Memory().String(), recommendationFor(c, scaler, "app").UncappedTarget.Memory().String())
	})
	waitForRecommendations(t, scaler, "app", "new", "extra")
	after := recommendationFor(t, scaler, "app")
	assert.Equal(t, memoryOf(targetFor(t, app, 3)), after.Target.Memory().String(), "the peak from before the rollout")
	assert.Greater(t, after.Samples, before.Samples)
	requireTarget(t, scaler, "new", less)

	// What was learned of a container is there as timeout as the container is back.
	edit(t, deployment, func(d *appsv1.Deployment) {
		setContainers(d, map[string]consumption{"app": less, "old": less})
	})
	waitForRecommendations(t, scaler, "app", "old")
	assert.Equal(t, memoryOf(targetFor(t, old, 2)), recommendationFor(t, scaler, "old").Target.Memory().String())
}

func TestDeploymentThatWasAwayKeepsItsHistory(t *testing.T) {
	t.Parallel()
	before, after := consumption{200, 400}, consumption{20, 50}
	deployment := newDeployment(newNamespace(t), "web", 1)
	setContainers(deployment, map[string]consumption{"app": before})
	scaler := createScaled(t, deployment)
	waitForRecommendations(t, scaler, "app")
	requireTarget(t, scaler, "app", before)
	told := recommendationFor(t, scaler, "app").DeepCopy()

	remove(t, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground))
	waitForNoTarget(t, scaler)
	waitForGone(t, deployment)

	assert.Equal(t, told, recommendationFor(t, refresh(t, scaler), "app"), "it is still recommended")
	deployment = newDeployment(deployment.Namespace, "web", 1)
	setContainers(deployment, map[string]consumption{"app": after})
	create(t, deployment)
	waitForUsageRead(t, env.manager, deployment.Namespace, time.Now())
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { // Else nothing that is new would be told.
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{MarginPercent: ptr.To[int32](115)}
	})
	eventually(t, func(c *assert.CollectT) {
		requireRecommendations(c, scaler, "app")
		now := recommendationFor(c, scaler, "app")
		require.Greater(c, now.Samples, told.Samples)
		require.Positive(c, now.Span.Duration)
		require.Greater(c, now.Target.Memory().Value(), told.Target.Memory().Value(), "the peak from before")
	})
}

func TestScalerRecommendsForADeploymentThatUprightOwns(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		used := consumption{70, 400}
		namespace := newNamespace(t)
		scaler := create(t, newScaler(namespace, "scaler", "app"))
		createReady(t, k.newOwner(namespace, "app", 1))
		deployment := getDeployment(t, namespace, "app")
		container := deployment.Spec.Template.Spec.Containers[0].Name

		annotate(t, &listPods(t, namespace)[0], usageOf(container, used)...)

		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, container)
			requireTarget(c, scaler, container, used)
		})
		assert.Equal(t, deployment.Generation, getDeployment(t, namespace, "app").Generation, "nobody changed it")
	})
}

func TestMetricsShowRecommendationsBesideRequestsAndHowUsageIsRead(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	token := newToken(t, namespace, "reader")
	bindMetricsReader(t, namespace, "reader")
	deployment := newDeployment(namespace, "web", 1)
	setContainers(deployment, map[string]consumption{"app": {200, 400}})
	deployment.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("123m"), corev1.ResourceMemory: resource.MustParse("456Mi"),
	}
	scaler := createScaled(t, deployment)
	create(t, newDeployment(namespace, "without-scaler", 1))
	waitForRecommendations(t, scaler, "app")

	eventually(t, func(c *assert.CollectT) {
		status, body := scrape(c, token)
		require.Equal(c, 200, status)
		ours := []string{
			`namespace="` + namespace + `"`, `verticalscaler="web"`, `deployment="web"`, `container="app"`,
		}
		recommended := recommendationFor(c, refresh(c, scaler), "app")
		for figure, amounts := range map[string]corev1.ResourceList{
			"target": recommended.Target, "lower": recommended.LowerBound, "upper": recommended.UpperBound,
		} {
			labels := slices.Concat(ours, []string{`figure="` + figure + `"`})
			require.InDelta(c, amounts.Cpu().AsApproximateFloat64(), metric(c, body, "upright_recommendation_cpu_cores", labels...), 1e-9, figure)
			require.InDelta(c, amounts.Memory().Value(), metric(c, body, "upright_recommendation_memory_bytes", labels...), 0, figure)
		}
		require.InDelta(c, 0.123, metric(c, body, "upright_container_request_cpu_cores", ours...), 1e-9)
		require.InDelta(c, 456<<20, metric(c, body, "upright_container_request_memory_bytes", ours...), 0)
		read, attributed := metric(c, body, "upright_usage_samples_read_total"), metric(c, body, "upright_usage_samples_attributed_total")
		dropped := metric(c, body, "upright_usage_samples_dropped_total")
		require.Positive(c, attributed)
		require.Positive(c, metric(c, body, "upright_usage_samples_dropped_total", `reason="seen"`), "read more pollInterval than measured")
		require.Positive(c, metric(c, body, "upright_usage_samples_dropped_total", `reason="unattributed"`), "of no scaler")
		require.GreaterOrEqual(c, read, attributed)
		require.InDelta(c, read, attributed+dropped, 0, "each sample that was read was used or dropped")
		age := metric(c, body, "upright_usage_newest_sample_age_seconds")
		require.Positive(c, age)
		require.Less(c, age, 60.0)
		cycles := metric(c, body, "upright_usage_cycle_duration_seconds_count")
		require.Positive(c, cycles)
		require.Less(c, metric(c, body, "upright_usage_cycle_duration_seconds_sum")/cycles, 2.0)
	})
}
