package recommendation_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/testenv"
)

// setContainers changes the containers of a Deployment's template.
func setContainers(t *testing.T, deployment *appsv1.Deployment, names ...string) {
	t.Helper()
	testenv.Edit(t, env, deployment, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = nil
		for _, name := range names {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, testenv.NewContainer(name))
		}
	})
}

func TestContainersOfAPreviousTemplateAreNotReadyWithoutPods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app", "log")
	deployment := testenv.NewDeployment(namespace, "web")
	setContainers(t, deployment, "app", "log")
	var source testenv.Meter
	source.Set(slices.Concat(testenv.SteadyUsage(pod, "app", 0.3, 300, 4), testenv.SteadyUsage(pod, "log", 0.1, 400, 4))...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	waitFor := func(ready metav1.ConditionStatus, containers ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			status := testenv.Refresh(c, env, scaler).Status
			var names []string
			for _, recommendation := range status.Recommendations {
				names = append(names, recommendation.ContainerName)
			}
			assert.Equal(c, containers, names)
			testenv.AssertCondition(c, status.Conditions, "RecommendationReady", ready, "NoPods")
		}, testenv.Timeout, testenv.Poll)
	}
	testenv.Delete(t, env, pod)
	waitFor(isTrue, "app", "log")
	setContainers(t, deployment, "app")
	waitFor(isTrue, "app")
	setContainers(t, deployment, "server")
	waitFor(isFalse)
	// A container that returns gets its previous history.
	testenv.Create(t, env, testenv.NewPod(namespace, "web", "bbbbb", "app", "log"))
	waitForReady(t, scaler, isTrue, "Recommended")
}
