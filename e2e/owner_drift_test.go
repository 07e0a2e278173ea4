package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestOwnerRepairsWhatKubectlChangedInItsDeployment(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)
		createReady(t, owner)
		wanted := deploymentOf(t, namespace, "app")

		for _, change := range [][]string{
			{"scale", "deployment/app", "--replicas=5"},
			{"scale", "deployment/app", "--replicas=0"},
			{"set", "image", "deployment/app", "*=example.com/other:1"},
			{"label", "deployment/app", "app.kubernetes.io/name=other", "--overwrite"},
			{"label", "deployment/app", "app.kubernetes.io/managed-by-"},
		} {
			before := deploymentOf(t, namespace, "app")
			kubectl(t, namespace, change...)
			eventually(t, func(c *assert.CollectT) {
				now := deploymentOf(c, namespace, "app")
				require.NotEqual(c, before.ResourceVersion, now.ResourceVersion, "%v", change)
				require.Equal(c, wanted.Spec, now.Spec, "%v", change)
				require.Equal(c, wanted.Labels, now.Labels, "%v", change)
			})
			becomesReady(t, owner)
			runsPodsOf(t, wanted, 2)
		}
	})
}

func TestOwnerReplacesItsDeletedDeployment(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)
		createReady(t, owner)
		before := deploymentOf(t, namespace, "app")

		kubectl(t, namespace, "delete", "deployment", "app")

		var after *appsv1.Deployment
		eventually(t, func(c *assert.CollectT) {
			after = deploymentOf(c, namespace, "app")
			require.NotEqual(c, before.UID, after.UID)
		})
		becomesReady(t, owner)
		runsPodsOf(t, after, 2)
		assert.Equal(t, before.Spec, after.Spec)
	})
}

// runsPodsOf waits until the pods of a namespace are those of one Deployment, running its image.
func runsPodsOf(t *testing.T, deployment *appsv1.Deployment, count int) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		pods := ownedPods(c, deployment)
		require.Len(c, pods, count)
		require.Len(c, podsIn(c, deployment.Namespace), count, "no other pods")
		for i := range pods {
			require.Equal(c, corev1.PodRunning, pods[i].Status.Phase)
			require.Equal(c, deployment.Spec.Template.Spec.Containers[0].Image, pods[i].Spec.Containers[0].Image)
		}
	})
}
