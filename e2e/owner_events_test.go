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

// The drift at the end is repaired after all that came before it has been seen.
func TestOwnerRecordsNoEventWhenNothingItDoesChanges(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)
		recordsEvents(t, k, owner)
		deployment := deploymentOf(t, namespace, "app")
		settles(t, deployment)

		for i := range 40 {
			before := deployment.DeepCopy()
			for j := range deployment.Status.Conditions {
				deployment.Status.Conditions[j].LastUpdateTime = metav1.NewTime(time.Unix(int64(i), 0))
			}
			require.NoError(t, env.client.Status().Patch(t.Context(), deployment, client.MergeFrom(before)))
		}
		version := refresh(t, owner).GetResourceVersion()

		kubectl(t, namespace, "scale", "deployment/app", "--replicas=3")
		recordsEvents(t, k, owner, "Synced")
		becomesReady(t, owner)
		assert.NotEqual(t, version, owner.GetResourceVersion(), "the drift shows in the status, the rest did not")
	})
}

// recordsEvents waits until an object has exactly the events of the given reasons; a Foo has
// one more, of its Deployment's creation.
func recordsEvents(t *testing.T, k kind, owner client.Object, reasons ...string) {
	t.Helper()
	if k.name == "Foo" {
		reasons = append(reasons, "Synced")
	}
	slices.Sort(reasons)
	eventually(t, func(c *assert.CollectT) { require.ElementsMatch(c, reasons, eventsOf(c, owner)) })
}
