package e2e_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestRecommendationFollowsUsageUpAndDown(t *testing.T) {
	t.Parallel()
	low, high := consumption{100, 300}, consumption{500, 600}
	deployment := newDeployment(newNamespace(t), "web", 1)
	setContainers(deployment, map[string]consumption{"app": low})
	observer := newObserver(t, deployment.Namespace)
	scaler := createScaled(t, deployment)
	waitForTargetOf := func(used consumption) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			observer.requireTargets(c, scaler)
			requireTarget(c, scaler, "app", used)
		})
	}

	waitForTargetOf(low)

	pod := &listPods(t, deployment.Namespace)[0]
	annotate(t, pod, usageOf("app", high)...)
	waitForTargetOf(high)

	// The CPU target follows the majority of the samples, which 30 pods with low usage soon produce. The
	// memory target follows the daily peak, so it does not fall within a day.
	annotate(t, pod, usageOf("app", low)...)
	edit(t, deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](30) })
	waitForTargetOf(consumption{cpu: low.cpu, memory: high.memory})
}

func TestRecommendationsOfContainersAddUpAndReportCaps(t *testing.T) {
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

// requireShownByKubectl requires that kubectl get and kubectl describe show the status of the only scaler
// in its namespace.
func requireShownByKubectl(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		target := refresh(c, scaler).Status.PodTarget
		listed, err := env.Kubectl(context.Background(), "get", "verticalscalers", "-n", scaler.Namespace)
		require.NoError(c, err)
		table := strings.Split(strings.TrimSpace(listed), "\n")
		require.Len(c, table, 2)
		require.Equal(c, []string{"NAME", "DEPLOYMENT", "MODE", "CPU", "MEMORY", "READY", "REASON", "APPLIED", "AGE"}, strings.Fields(table[0]))
		row := strings.Fields(table[1])
		require.Len(c, row, 9)
		require.Equal(c, []string{
			scaler.Name, scaler.Spec.DeploymentName, "Off", target.Cpu().String(), target.Memory().String(), "True", "Recommended", "UpdateModeOff",
		}, row[:8])
		require.Regexp(c, `^([0-9]+[smh])+$`, row[8])

		described, err := env.Kubectl(context.Background(), "describe", "verticalscaler", scaler.Name, "-n", scaler.Namespace)
		require.NoError(c, err)
		text := strings.Join(strings.Fields(described), " ")
		require.Contains(c, text, "Message: "+conditionMessage(scaler, "Ready"))
		require.Contains(c, text, "Capped By: Memory: MaxAllowed Container Name: app")
		require.Contains(c, text, "Capped By: Memory: PodMinimum Container Name: log")
		require.Regexp(c, `Container Name: app .* Samples: [0-9]+ .* Container Name: log`, text)
	})
}
