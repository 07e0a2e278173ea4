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

// The namespace enforces the restricted Pod Security Standard. The steps follow one another.
func TestOwnersPodsRunAreReplacedAndAreDeletedWithTheOwner(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t, "pod-security.kubernetes.io/enforce", "restricted")
		owner := k.newOwner(namespace, "app", 2)

		createReady(t, owner)

		deployment := getDeployment(t, namespace, "app")
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
		kubectl(t, namespace, "wait", "--for=condition=Ready", k.resource, "--all", "--timeout=2m")

		kubectl(t, namespace, "delete", "deployment", "app")

		var replacement *appsv1.Deployment
		eventually(t, func(c *assert.CollectT) {
			replacement = getDeployment(c, namespace, "app")
			require.NotEqual(c, deployment.UID, replacement.UID)
		})
		waitForReady(t, owner)
		waitForPods(t, replacement, 2)
		assert.Equal(t, deployment.Spec, replacement.Spec)
		eventually(t, func(c *assert.CollectT) {
			require.Len(c, workloadVersions(c, namespace), 4, "a Deployment, a ReplicaSet and two pods")
		})

		remove(t, owner, client.PropagationPolicy(metav1.DeletePropagationBackground))

		waitForGone(t, owner)
		waitForNoWorkloads(t, namespace)
	})
}

func TestOwnerDeletedInForegroundWaitsForItsDeployment(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 2)
		createReady(t, owner)
		const finalizer = "example.com/wait"
		deployment := getDeployment(t, namespace, "app")
		edit(t, deployment, func(d *appsv1.Deployment) { d.Finalizers = []string{finalizer} })

		remove(t, owner, client.PropagationPolicy(metav1.DeletePropagationForeground))

		eventually(t, func(c *assert.CollectT) {
			require.Equal(c, []string{finalizer}, refresh(c, deployment).Finalizers, "the only remaining finalizer")
			require.NotNil(c, deployment.DeletionTimestamp)
			require.Len(c, workloadVersions(c, namespace), 1, "only the Deployment remains")
		})
		waitForGarbageCollection(t, namespace)
		assert.NotNil(t, refresh(t, owner).GetDeletionTimestamp(), "the owner still exists")
		edit(t, deployment, func(d *appsv1.Deployment) { d.Finalizers = nil })
		waitForGone(t, owner)
		waitForNoWorkloads(t, namespace)
	})
}

func TestNamespaceWithAllKindsCanBeDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, newScaler(namespace, "scaler", "app-busyboxes"))
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "app-"+k.resource, 1))
	}

	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	remove(t, obj)

	waitForGone(t, obj)
}

// waitForGarbageCollection waits until the garbage collector has processed all earlier changes: until
// it has deleted a new object whose owner does not exist. The owner reference may be given.
func waitForGarbageCollection(t *testing.T, namespace string, owner ...metav1.OwnerReference) {
	t.Helper()
	if len(owner) == 0 {
		owner = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never-created", UID: "0"}}
	}
	canary := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, GenerateName: "canary-", OwnerReferences: owner,
	}}
	create(t, canary)
	waitForGone(t, canary)
}
