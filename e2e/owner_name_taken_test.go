package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOwnerLeavesAnothersDeploymentAloneAndTakesTheNameWhenItIsFree(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		other := createAvailable(t, newDeployment(namespace, "app", 2))
		before := workloads(t, namespace)
		owner := k.newOwner(namespace, "app", 1)

		create(t, owner)

		message := becomesDegraded(t, owner, "DeploymentNameTaken")
		assert.Contains(t, message, `Deployment "app" exists and is not controlled by this object, so it is left as it is. `+
			`Delete it or choose another name: the name is taken as soon as it is free.`)
		eventually(t, func(c *assert.CollectT) { requireWarning(c, owner, "ErrResourceExists", message) })
		assert.Equal(t, before, workloads(t, namespace), "not one of them has been written to")

		remove(t, other)
		becomesReady(t, owner)
		recordsEvents(t, k, owner, "ErrResourceExists", "Recovered")
		runsPodsOf(t, deploymentOf(t, namespace, "app"), 1)
	})
}

func TestOwnersOfTwoKindsDoNotShareADeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	busybox := kinds[0].newOwner(namespace, "app", 1)
	createReady(t, busybox)
	foo := newFoo(namespace, "app", 2)

	create(t, foo)

	assert.Contains(t, becomesDegraded(t, foo, "DeploymentNameTaken"), `belongs to Busybox "app"`)
	assert.True(t, metav1.IsControlledBy(deploymentOf(t, namespace, "app"), busybox))
	remove(t, busybox)
	becomesReady(t, foo)
	assert.True(t, metav1.IsControlledBy(deploymentOf(t, namespace, "app"), foo))
}

// createAvailable creates a Deployment that is not Upright's and waits until nothing writes
// to it any more.
func createAvailable(t *testing.T, deployment *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	create(t, deployment)
	settles(t, deployment)
	return deployment
}

// settles waits until a Deployment has rolled out and its controller has no more to write.
func settles(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		status := refresh(c, deployment).Status
		require.Equal(c, deployment.Generation, status.ObservedGeneration)
		require.Equal(c, *deployment.Spec.Replicas, status.UpdatedReplicas)
		require.Equal(c, *deployment.Spec.Replicas, status.AvailableReplicas)
		require.Equal(c, *deployment.Spec.Replicas, status.Replicas)
		for _, condition := range status.Conditions {
			if condition.Type == appsv1.DeploymentProgressing {
				require.Equal(c, "NewReplicaSetAvailable", condition.Reason)
			}
		}
	})
}

func requireWarning(t require.TestingT, regarding client.Object, reason, note string) {
	var events eventsv1.EventList
	require.NoError(t, env.client.List(context.Background(), &events, client.InNamespace(regarding.GetNamespace())))
	for i := range events.Items {
		event := &events.Items[i]
		if event.Regarding.UID == regarding.GetUID() && event.Reason == reason {
			require.Equal(t, "Warning", event.Type)
			require.Equal(t, note, event.Note)
			return
		}
	}
	require.Fail(t, "no event", "%s", reason)
}
