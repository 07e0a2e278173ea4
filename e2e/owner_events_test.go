package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The owner repairs the drift after it has seen everything before it.
func TestOwnerRecordsAnEventOnlyWhenItRepairsDrift(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)
		waitForEvents(t, k, owner)
		deployment := getDeployment(t, namespace, "app")
		waitForSettled(t, deployment)
		want := deployment.Spec.DeepCopy()

		for i := range 40 {
			before := deployment.DeepCopy()
			for j := range deployment.Status.Conditions {
				deployment.Status.Conditions[j].LastUpdateTime = metav1.NewTime(time.Unix(int64(i), 0))
			}
			require.NoError(t, env.client.Status().Patch(t.Context(), deployment, client.MergeFrom(before)))
		}
		version := refresh(t, owner).GetResourceVersion()

		kubectl(t, namespace, "scale", "deployment/app", "--replicas=3")
		waitForEvents(t, k, owner, "Synced")
		// The event is recorded before the status is written.
		eventually(t, func(c *assert.CollectT) {
			assert.NotEqual(c, version, refresh(c, owner).GetResourceVersion(), "the drift changes the owner's status")
		})
		waitForReady(t, owner)
		assert.Equal(t, *want, refresh(t, deployment).Spec)
		waitForPods(t, deployment, 1)
	})
}

// waitForEvents waits until an owner has exactly the events with these reasons. A Foo has one more,
// for the creation of its Deployment.
func waitForEvents(t *testing.T, k kind, owner client.Object, reasons ...string) {
	t.Helper()
	if k.name == "Foo" {
		reasons = append(reasons, "Synced")
	}
	slices.Sort(reasons)
	eventually(t, func(c *assert.CollectT) { require.ElementsMatch(c, reasons, eventReasons(c, owner)) })
}
