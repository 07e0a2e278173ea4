package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRunningPodsKeepTheirSizeWhenTheirScalerIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newWebDeployment(namespace, 2, "Granted"))
	scaler := create(t, newImmediateScaler(namespace, "web"))
	waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
	waitForResources(t, deployment, recommendedResources, 2)
	waitForSettled(t, deployment)
	before := workloadVersions(t, namespace)

	remove(t, scaler)

	waitForGone(t, scaler)
	waitForSizeTable(t, scaler)
	waitForGarbageCollection(t, namespace)
	assert.Equal(t, before, workloadVersions(t, namespace), "UIDs and resource versions")
	requireResources(t, templateResources, replacePods(t, deployment))
	scaler = create(t, newImmediateScaler(namespace, "web"))
	waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
	waitForResources(t, deployment, recommendedResources, 2)
}

// replacePods deletes all pods of a namespace and returns the new pods of one Deployment.
func replacePods(t *testing.T, deployment *appsv1.Deployment) []corev1.Pod {
	t.Helper()
	before := sets.New(names(listPods(t, deployment.Namespace))...)
	require.NoError(t, env.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(deployment.Namespace)))
	var created []corev1.Pod
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, env.client.Get(context.Background(), client.ObjectKeyFromObject(deployment), deployment))
		require.Equal(c, deployment.Generation, deployment.Status.ObservedGeneration)
		require.Equal(c, *deployment.Spec.Replicas, deployment.Status.UpdatedReplicas)
		created = ownedPods(c, deployment)
		require.Len(c, created, int(*deployment.Spec.Replicas))
		require.False(c, before.HasAny(names(created)...), "a deleted pod still exists")
	})
	return created
}
