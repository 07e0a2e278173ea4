package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const chart = "charts/web"

// eachHelm runs a test with each version of Helm, in parallel, in a namespace of its own.
func eachHelm(t *testing.T, test func(t *testing.T, namespace string, helm func(args ...string) string)) {
	t.Parallel()
	for _, version := range []int{4, 3} {
		t.Run(fmt.Sprintf("Helm %d", version), func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			test(t, namespace, func(args ...string) string {
				t.Helper()
				out, err := env.Helm(t.Context(), version, append(args, "--namespace", namespace)...)
				require.NoError(t, err)
				return out
			})
		})
	}
}

func TestDeletedScalerLeavesAHelmReleaseExactlyAsItWas(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		scaler := newRecommender(namespace, "web", "web")
		helm("install", "web", chart)
		create(t, scaler)
		findsTarget(t, scaler)
		release := deploymentOf(t, namespace, "web")
		settles(t, release)
		before := workloads(t, namespace)
		require.Len(t, before, 4, "a Deployment, a ReplicaSet and two pods")

		for _, propagation := range []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		} {
			remove(t, scaler, client.PropagationPolicy(propagation))
			gone(t, scaler)
			garbageIsCollected(t, namespace, metav1.OwnerReference{
				APIVersion: autoscalingv1beta1.GroupVersion.String(), Kind: "VerticalScaler",
				Name: scaler.Name, UID: scaler.UID,
			})

			assert.Equal(t, before, workloads(t, namespace), "each with its UID and its resource version")
			scaler = newRecommender(namespace, "web", "web")
			create(t, scaler)
			findsTarget(t, scaler)
		}
		remove(t, scaler)
		gone(t, scaler)
		helm("upgrade", "web", chart, "--set", "image.tag=upgraded", "--set", "replicas=3")
		assert.Equal(t, release.UID, refresh(t, release).UID, "upgraded, not replaced")
		runsPodsOf(t, release, 3)
	})
}

func TestScalerFollowsAHelmReleaseThroughUpgradeUninstallAndReinstall(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		scaler := create(t, newScaler(namespace, "web", "web"))
		missesTarget(t, scaler)

		helm("install", "web", chart)
		findsTarget(t, scaler)
		settles(t, deploymentOf(t, namespace, "web"))

		helm("upgrade", "web", chart, "--set", "image.tag=upgraded", "--set", "resources.requests.cpu=150m")
		release := deploymentOf(t, namespace, "web")
		container := release.Spec.Template.Spec.Containers[0]
		assert.Contains(t, container.Image, ":upgraded")
		assert.Equal(t, "150m", container.Resources.Requests.Cpu().String())
		settles(t, release)
		runsPodsOf(t, release, 2)
		findsTarget(t, scaler)

		helm("uninstall", "web")
		missesTarget(t, scaler)
		becomesEmpty(t, namespace)

		helm("install", "web", chart)
		findsTarget(t, scaler)
		again := deploymentOf(t, namespace, "web")
		assert.NotEqual(t, release.UID, again.UID)
		runsPodsOf(t, again, 2)
		kubectl(t, namespace, "wait", "--for=condition=Ready", "verticalscaler/web", "--timeout=2m")
	})
}

func findsTarget(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		conditions := refresh(c, scaler).Status.Conditions
		requireCondition(c, conditions, "TargetFound", metav1.ConditionTrue, "DeploymentFound")
	})
}

func missesTarget(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		conditions := refresh(c, scaler).Status.Conditions
		requireCondition(c, conditions, "TargetFound", metav1.ConditionFalse, "DeploymentNotFound")
		requireCondition(c, conditions, "Ready", metav1.ConditionFalse, "DeploymentNotFound")
	})
}
