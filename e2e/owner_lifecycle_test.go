package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOwnerGetsRunningPodsAndBecomesReady(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)

		createReady(t, owner)

		deployment := deploymentOf(t, namespace, "app")
		assert.True(t, metav1.IsControlledBy(deployment, owner))
		assert.Equal(t, int32(2), deployment.Status.AvailableReplicas)
		pods := ownedPods(t, deployment)
		assert.Len(t, pods, 2)
		for i := range pods {
			assert.Equal(t, corev1.PodRunning, pods[i].Status.Phase)
			assert.Equal(t, corev1.PodQOSBurstable, pods[i].Status.QOSClass)
		}
		status := statusOf(t, owner)
		assert.Equal(t, int32(2), status.Replicas)
		assert.Equal(t, int32(2), status.AvailableReplicas)
		kubectl(t, namespace, "wait", "--for=condition=Ready", k.resource, "--all", "--timeout=10s")
	})
}

func TestDeletedOwnerTakesItsWorkloadAlong(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)
		createReady(t, owner)
		require.Len(t, workloads(t, namespace), 4, "a Deployment, a ReplicaSet and two pods")

		remove(t, owner, client.PropagationPolicy(metav1.DeletePropagationBackground))

		gone(t, owner)
		becomesEmpty(t, namespace)
	})
}

func TestOwnerDeletedInForegroundWaitsForItsDeployment(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)
		createReady(t, owner)
		const hold = "example.com/hold"
		deployment := deploymentOf(t, namespace, "app")
		edit(t, deployment, func(d *appsv1.Deployment) { d.Finalizers = []string{hold} })

		remove(t, owner, client.PropagationPolicy(metav1.DeletePropagationForeground))

		eventually(t, func(c *assert.CollectT) {
			require.Equal(c, []string{hold}, refresh(c, deployment).Finalizers, "nothing else holds the Deployment")
			require.NotNil(c, deployment.DeletionTimestamp)
			require.Len(c, workloads(c, namespace), 1, "the Deployment alone is left")
		})
		garbageIsCollected(t, namespace)
		assert.NotNil(t, refresh(t, owner).GetDeletionTimestamp(), "the owner waits")
		edit(t, deployment, func(d *appsv1.Deployment) { d.Finalizers = nil })
		gone(t, owner)
		becomesEmpty(t, namespace)
	})
}

func TestDeletedNamespaceGoes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, newScaler(namespace, "scaler", "app-busyboxes"))
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "app-"+k.resource, 1))
	}

	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	remove(t, obj)

	gone(t, obj)
}

// becomesEmpty waits until a namespace has no Deployment, ReplicaSet or pod.
func becomesEmpty(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) { require.Empty(c, workloads(c, namespace)) })
}

// garbageIsCollected waits until the garbage collector has been through what came before: it
// has removed a new object whose owner does not exist. The owner may be given.
func garbageIsCollected(t *testing.T, namespace string, owner ...metav1.OwnerReference) {
	t.Helper()
	if len(owner) == 0 {
		owner = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "0"}}
	}
	canary := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, GenerateName: "canary-", OwnerReferences: owner,
	}}
	create(t, canary)
	gone(t, canary)
}
