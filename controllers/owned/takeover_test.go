package owned

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/testenv"
)

// newRival returns an object that needs three pods in the Deployment of the given name. It has
// another name than the other objects of the test, if its kind allows that.
func (k ownerKind) newRival(namespace, deployment string) client.Object {
	rival := k.newObject(namespace, deployment)
	if k.name == "Foo" {
		rival.SetName("rival-of-" + deployment)
	}
	*k.size(rival) = new(int32(3))
	return rival
}

// forEachPair runs a test for each two objects that can need the same Deployment.
func forEachPair(t *testing.T, test func(t *testing.T, kind, rivalKind ownerKind, namespace string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range ownerKinds {
		for _, rivalKind := range ownerKinds {
			if kind.name == rivalKind.name && kind.name != "Foo" {
				continue // The API server allows each name once.
			}
			t.Run(kind.name+" and "+rivalKind.name, func(t *testing.T) {
				t.Parallel()
				test(t, kind, rivalKind, env.Namespace(t))
			})
		}
	}
}

// TestOwnerDoesNotTakeOverDeploymentThatARivalHasJustCreated reconciles the rival after the owner
// has seen that the name is free, and before it writes.
func TestOwnerDoesNotTakeOverDeploymentThatARivalHasJustCreated(t *testing.T) {
	forEachPair(t, func(t *testing.T, kind, rivalKind ownerKind, namespace string) {
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		rival := testenv.Create(t, env, rivalKind.newRival(namespace, "web"))
		rivalReconciler := rivalKind.reconcilerOf(rival, newDirectClient(t, interceptor.Funcs{}))
		var created *appsv1.Deployment
		r := kind.reconcilerOf(obj, newDirectClient(t, onDeploymentApply(func(*appsv1ac.DeploymentApplyConfiguration) error {
			rivalReconciler.mustReconcile(t)
			created = testenv.WaitForDeployment(t, env, namespace, "web").DeepCopy()
			return nil
		})))

		_, err := r.reconcile()
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.NotNil(t, created)
		assert.True(t, metav1.IsControlledBy(created, rival))
		assert.Equal(t, created, testenv.WaitForDeployment(t, env, namespace, "web"))
		assert.Empty(t, r.events(), "the next reconcile sees the rival's Deployment")
		testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")

		r.mustReconcile(t)
		testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionFalse, "DeploymentNameTaken")
		rivalReconciler.mustReconcile(t)
		assert.Equal(t, created, testenv.WaitForDeployment(t, env, namespace, "web"))
	})
}

// TestOwnersThatAreCreatedAtOnceDoNotTakeOverEachOthersDeployment creates many pairs of objects
// that need the same Deployment. They need different numbers of pods, so a Deployment that was
// taken over has a second generation.
func TestOwnersThatAreCreatedAtOnceDoNotTakeOverEachOthersDeployment(t *testing.T) {
	const pairs = 20
	forEachPair(t, func(t *testing.T, kind, rivalKind ownerKind, namespace string) {
		startManager(t, namespace)
		objects := make([][2]client.Object, pairs)
		for i := range objects {
			name := fmt.Sprintf("web-%d", i)
			objects[i] = [2]client.Object{kind.newObject(namespace, name), rivalKind.newRival(namespace, name)}
			created := make(chan error, 2)
			for _, obj := range objects[i] {
				go func() { created <- env.Client.Create(context.Background(), obj) }()
			}
			require.NoError(t, <-created)
			require.NoError(t, <-created)
		}
		for i, pair := range objects {
			d := testenv.WaitForDeployment(t, env, namespace, fmt.Sprintf("web-%d", i))
			winner, loser := kind, rivalKind
			if metav1.IsControlledBy(d, pair[1]) {
				pair[0], pair[1], winner, loser = pair[1], pair[0], rivalKind, kind
			}
			require.True(t, metav1.IsControlledBy(d, pair[0]))
			winner.waitForReady(t, pair[0], metav1.ConditionFalse, "RolloutInProgress")
			loser.waitForReady(t, pair[1], metav1.ConditionFalse, "DeploymentNameTaken")
			assert.Equal(t, d.UID, testenv.Refresh(t, env, d).UID)
			assert.Len(t, d.OwnerReferences, 1)
			assert.True(t, metav1.IsControlledBy(d, pair[0]))
			assert.Equal(t, int64(1), d.Generation)
			assert.Empty(t, eventsOf(t, pair[0], "ErrResourceExists"))
			assert.Empty(t, eventsOf(t, pair[1], "DeploymentRefused"))
		}
	})
}

// TestOwnerDoesNotWriteDeploymentThatChangedSinceItWasRead changes the Deployment after the owner
// has seen that it differs, and before it writes.
func TestOwnerDoesNotWriteDeploymentThatChangedSinceItWasRead(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *appsv1.Deployment){
		"its controller is removed": func(t *testing.T, d *appsv1.Deployment) {
			testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		},
		"it is deleted": func(t *testing.T, d *appsv1.Deployment) { testenv.Delete(t, env, d) },
		"it is re-created by somebody else": func(t *testing.T, d *appsv1.Deployment) {
			testenv.Delete(t, env, d)
			testenv.Create(t, env, testenv.NewDeployment(d.Namespace, d.Name))
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
				obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
				var changed []appsv1.Deployment
				beforeApply := func() {}
				r := kind.reconcilerOf(obj, newDirectClient(t, onDeploymentApply(func(*appsv1ac.DeploymentApplyConfiguration) error {
					beforeApply()
					return nil
				})))
				r.mustReconcile(t)
				beforeApply = func() {
					change(t, testenv.WaitForDeployment(t, env, namespace, "web"))
					changed = deployments(t, namespace)
				}
				kind.setSize(t, obj, 3)
				_, err := r.reconcile()
				require.True(t, apierrors.IsConflict(err), "%v", err)
				assert.Equal(t, changed, deployments(t, namespace))
			})
		})
	}
}

// deployments returns the Deployments of a namespace.
func deployments(t *testing.T, namespace string) []appsv1.Deployment {
	t.Helper()
	var list appsv1.DeploymentList
	require.NoError(t, env.Client.List(t.Context(), &list, client.InNamespace(namespace)))
	return list.Items
}
