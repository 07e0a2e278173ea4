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

// eachHelm runs a test with each version of Helm, in parallel, each in its own namespace.
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

func TestDeletedScalerLeavesHelmReleaseUnchanged(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		scaler := newRecommender(namespace, "web", "web")
		helm("install", "web", chart)
		create(t, scaler)
		waitForTarget(t, scaler)
		release := getDeployment(t, namespace, "web")
		waitForSettled(t, release)
		before := workloadVersions(t, namespace)
		require.Len(t, before, 4, "a Deployment, a ReplicaSet and two pods")

		for _, propagation := range []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		} {
			remove(t, scaler, client.PropagationPolicy(propagation))
			waitForGone(t, scaler)
			waitForGarbageCollection(t, namespace, metav1.OwnerReference{
				APIVersion: autoscalingv1beta1.GroupVersion.String(), Kind: "VerticalScaler",
				Name: scaler.Name, UID: scaler.UID,
			})

			assert.Equal(t, before, workloadVersions(t, namespace), "UIDs and resource versions")
			scaler = newRecommender(namespace, "web", "web")
			create(t, scaler)
			waitForTarget(t, scaler)
		}
		remove(t, scaler)
		waitForGone(t, scaler)
		helm("upgrade", "web", chart, "--set", "image.tag=upgraded", "--set", "replicas=3")
		assert.Equal(t, release.UID, refresh(t, release).UID, "the Deployment was upgraded and not replaced")
		waitForPods(t, release, 3)
	})
}

func TestScalerFollowsHelmReleaseThroughUpgradeAndReinstall(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		scaler := create(t, newScaler(namespace, "web", "web"))
		waitForNoTarget(t, scaler)

		helm("install", "web", chart)
		waitForTarget(t, scaler)
		waitForSettled(t, getDeployment(t, namespace, "web"))

		helm("upgrade", "web", chart, "--set", "image.tag=upgraded", "--set", "resources.requests.cpu=150m")
		release := getDeployment(t, namespace, "web")
		container := release.Spec.Template.Spec.Containers[0]
		assert.Contains(t, container.Image, ":upgraded")
		assert.Equal(t, "150m", container.Resources.Requests.Cpu().String())
		waitForSettled(t, release)
		waitForPods(t, release, 2)
		waitForTarget(t, scaler)

		helm("uninstall", "web")
		waitForNoTarget(t, scaler)
		waitForNoWorkloads(t, namespace)

		helm("install", "web", chart)
		waitForTarget(t, scaler)
		reinstalled := getDeployment(t, namespace, "web")
		assert.NotEqual(t, release.UID, reinstalled.UID)
		waitForPods(t, reinstalled, 2)
		kubectl(t, namespace, "wait", "--for=condition=Ready", "verticalscaler/web", "--timeout=2m")
	})
}

// waitForTarget waits until a scaler has found its Deployment.
func waitForTarget(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		conditions := refresh(c, scaler).Status.Conditions
		requireCondition(c, conditions, "TargetFound", metav1.ConditionTrue, "DeploymentFound")
	})
}

// waitForNoTarget waits until a scaler reports that its Deployment does not exist.
func waitForNoTarget(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		conditions := refresh(c, scaler).Status.Conditions
		requireCondition(c, conditions, "TargetFound", metav1.ConditionFalse, "DeploymentNotFound")
		requireCondition(c, conditions, "Ready", metav1.ConditionFalse, "DeploymentNotFound")
	})
}
