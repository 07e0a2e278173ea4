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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/testenv"
)

// TestFoosThatSwapNamesSwapDeployments changes the names of Foos, so that each Foo waits for the
// Deployment of the next one.
func TestFoosThatSwapNamesSwapDeployments(t *testing.T) {
	t.Parallel()
	for _, count := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d Foos", count), func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			startManager(t, namespace)
			foos, owned := make([]client.Object, count), make([]*appsv1.Deployment, count)
			for i := range foos {
				name := fmt.Sprintf("web-%d", i)
				foos[i] = fooKind.createReady(t, namespace, name)
				owned[i] = testenv.WaitForDeployment(t, env, namespace, name).DeepCopy()
			}
			for i, foo := range foos {
				setDeploymentName(t, foo, owned[(i+1)%count].Name)
			}
			for i, foo := range foos {
				next, before := owned[(i+1)%count].DeepCopy(), owned[(i+1)%count]
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					observeGenerations(t, namespace)
					testenv.AssertCondition(c, fooKind.status(testenv.Refresh(c, env, foo)).Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
					assert.True(c, metav1.IsControlledBy(testenv.Refresh(c, env, next), foo))
				}, testenv.Timeout, testenv.Poll)
				assert.Equal(t, before.UID, next.UID)
				assert.Equal(t, before.Spec.Template, next.Spec.Template, "its pods run all the time")
				assert.Len(t, next.OwnerReferences, 1)
			}
			assert.Len(t, deployments(t, namespace), count)
		})
	}
}

// observeGenerations does what the Deployment controller does when pods need no change.
func observeGenerations(t *testing.T, namespace string) {
	t.Helper()
	for _, d := range deployments(t, namespace) {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status.ObservedGeneration = d.Generation
		if err := env.Client.Status().Update(t.Context(), &d); !apierrors.IsConflict(err) {
			require.NoError(t, err)
		}
	}
}

// TestFooKeepsItsDeploymentWhileANameThatItWaitsForIsTaken lets Foos wait for each other, but the
// last one waits for a Deployment of somebody else.
func TestFooKeepsItsDeploymentWhileANameThatItWaitsForIsTaken(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foreign := testenv.Create(t, env, testenv.NewDeployment(namespace, "foreign"))
	first := fooKind.createReady(t, namespace, "first")
	second := fooKind.createReady(t, namespace, "second")
	before := deployments(t, namespace)
	setDeploymentName(t, second, "foreign")
	fooKind.waitForReady(t, second, metav1.ConditionFalse, "DeploymentNameTaken")
	setDeploymentName(t, first, "second")
	fooKind.waitForReady(t, first, metav1.ConditionFalse, "DeploymentNameTaken")
	waiting := testenv.Create(t, env, fooKind.newRival(namespace, "first"))
	fooKind.waitForReady(t, waiting, metav1.ConditionFalse, "DeploymentNameTaken")
	assert.Equal(t, before, deployments(t, namespace))

	testenv.Delete(t, env, foreign)
	waitForController(t, foreign, second)
	testenv.MarkAvailable(t, env, foreign)
	for i, foo := range []client.Object{first, waiting} {
		d := testenv.WaitForDeployment(t, env, namespace, []string{"second", "first"}[i])
		waitForController(t, d, foo)
		testenv.MarkAvailable(t, env, d)
		fooKind.waitForReady(t, foo, metav1.ConditionTrue, "AsExpected")
	}
}

func TestFooHandsPreviousDeploymentToTheOldestFooThatWaitsForIt(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.createReady(t, namespace, "web")
	d := testenv.WaitForDeployment(t, env, namespace, "web")
	before := d.DeepCopy()
	oldest := testenv.Create(t, env, fooKind.newRival(namespace, "web"))
	fooKind.waitForReady(t, oldest, metav1.ConditionFalse, "DeploymentNameTaken")
	testenv.WaitForNextSecond(t, oldest)
	younger := newFoo(namespace, "web")
	younger.Name = "a-younger-one"
	testenv.Create(t, env, younger)
	fooKind.waitForReady(t, younger, metav1.ConditionFalse, "DeploymentNameTaken")

	setDeploymentName(t, foo, "other")
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "other"))
	waitForController(t, d, oldest)
	assert.Equal(t, before.UID, d.UID)
	assert.Len(t, d.OwnerReferences, 1)
	assert.Equal(t, int32(3), *d.Spec.Replicas)
	fooKind.waitForReady(t, oldest, metav1.ConditionFalse, "RolloutInProgress")
	fooKind.waitForReady(t, younger, metav1.ConditionFalse, "DeploymentNameTaken")
	waitForOneEvent(t, oldest, "Normal", "Synced")
}

// TestFooDoesNotDeletePreviousDeploymentThatChangedSinceItWasRead removes the controller of the
// previous Deployment just before it is deleted.
func TestFooDoesNotDeletePreviousDeploymentThatChangedSinceItWasRead(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	foo := testenv.Create(t, env, fooKind.newObject(namespace, "previous"))
	beforeDelete := func() {
		previous := testenv.WaitForDeployment(t, env, namespace, "previous")
		testenv.Edit(t, env, previous, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	}
	r := fooKind.reconcilerOf(foo, newDirectClient(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			beforeDelete()
			return c.Delete(ctx, obj, opts...)
		},
	}))
	r.mustReconcile(t)
	setDeploymentName(t, foo, "new")
	r.mustReconcile(t)
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "new"))
	_, err := r.reconcile()
	require.True(t, apierrors.IsConflict(err), "%v", err)
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	r.mustReconcile(t)
	assert.Equal(t, previous.DeepCopy(), testenv.Refresh(t, env, previous))
}
