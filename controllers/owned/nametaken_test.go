package owned

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

// newForeignDeployment returns a Deployment "web" that an owner does not control.
type newForeignDeployment func(*testing.T, ownerKind, client.Object) *appsv1.Deployment

// foreignDeployments are the Deployments that an owner can find under its Deployment's name.
var foreignDeployments = map[string]newForeignDeployment{
	"of a Helm chart":                     ofHelmChart,
	"of a Helm chart, with our label":     ofHelmChartWithOurLabel,
	"like ours but without a controller":  withoutController,
	"of a deleted owner of the same name": ofDeletedOwner,
}

func ofHelmChart(_ *testing.T, _ ownerKind, obj client.Object) *appsv1.Deployment {
	return testenv.NewDeployment(obj.GetNamespace(), "web")
}

func ofHelmChartWithOurLabel(_ *testing.T, _ ownerKind, obj client.Object) *appsv1.Deployment {
	d := testenv.NewDeployment(obj.GetNamespace(), "web")
	d.Labels[cache.ManagedByLabel] = cache.ManagedByUpright
	return d
}

// withoutController returns the desired Deployment of obj without its controller, with another
// image.
func withoutController(t *testing.T, kind ownerKind, obj client.Object) *appsv1.Deployment {
	t.Helper()
	d, err := asDeployment(kind.desired(obj))
	require.NoError(t, err)
	d.OwnerReferences = nil
	d.Spec.Template.Spec.Containers[0].Image = "mine:1"
	return d
}

// ofDeletedOwner returns the Deployment of an object with the kind and name of obj but another
// UID, with another image.
func ofDeletedOwner(t *testing.T, kind ownerKind, obj client.Object) *appsv1.Deployment {
	t.Helper()
	deleted, ok := obj.DeepCopyObject().(client.Object)
	require.True(t, ok)
	deleted.SetUID("of-the-deleted-owner")
	d, err := asDeployment(kind.desired(deleted))
	require.NoError(t, err)
	d.Spec.Template.Spec.Containers[0].Image = "mine:1"
	return d
}

func TestOwnerDoesNotTouchForeignDeployment(t *testing.T) {
	for name, newDeployment := range foreignDeployments {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
				d := testenv.Create(t, env, newDeployment(t, kind, kind.newObject(namespace, "web")))
				before := testenv.Refresh(t, env, d).DeepCopy()
				startManager(t, namespace)
				obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
				for _, size := range []int32{3, 1, 2} { // Each change triggers a reconcile.
					kind.setSize(t, obj, size)
					status := kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
					testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "DeploymentNameTaken")
					testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "DeploymentNameTaken")
					assert.Zero(t, status.Replicas)
				}
				waitForOneEvent(t, obj, corev1.EventTypeWarning, "ErrResourceExists")
				assert.Equal(t, before, testenv.Refresh(t, env, d), "nothing is written, so the resourceVersion is the same")
			})
		})
	}
}

func TestOwnerRecordsThatTheNameIsTakenOnceAndDoesNotRequeue(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		r := kind.reconcilerOf(obj, newDirectClient(t, interceptor.Funcs{}))
		for range 3 {
			result, err := r.reconcile()
			require.NoError(t, err, "an error causes a retry")
			assert.Equal(t, ctrl.Result{}, result, "a requeue is a poll")
		}
		recorded := r.events()
		require.Len(t, recorded, 1)
		assert.Contains(t, recorded[0], `Warning ErrResourceExists Deployment "web" exists`)
		assert.Contains(t, recorded[0], "Delete it or choose another name")
	})
}

func TestOwnerCreatesDeploymentWhenTheNameBecomesFree(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		testenv.Delete(t, env, d)
		waitForController(t, d, obj)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		waitForOneEvent(t, obj, corev1.EventTypeNormal, "Recovered")
	})
}

// waitForController waits until an object controls the Deployment with d's name.
func waitForController(t *testing.T, d *appsv1.Deployment, controller client.Object) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.True(c, metav1.IsControlledBy(testenv.Refresh(c, env, d), controller))
	}, testenv.Timeout, testenv.Poll)
}

func TestOwnerDoesNotTouchDeploymentThatLostItsOwnerReference(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		before := testenv.Refresh(t, env, d).DeepCopy()
		kind.setSize(t, obj, 3)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		assert.Equal(t, before, testenv.Refresh(t, env, d))
	})
}

// TestOwnerDoesNotOverwriteDeploymentThatItsCacheLacks reconciles with reads that return no
// Deployment, as a stale cache does.
func TestOwnerDoesNotOverwriteDeploymentThatItsCacheLacks(t *testing.T) {
	for name, newDeployment := range map[string]newForeignDeployment{
		"of a Helm chart":                     ofHelmChart,
		"of a deleted owner of the same name": ofDeletedOwner,
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
				d := testenv.Create(t, env, newDeployment(t, kind, kind.newObject(namespace, "web")))
				before := testenv.Refresh(t, env, d).DeepCopy()
				obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
				isStale := true
				r := kind.reconcilerOf(obj, newDirectClient(t, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						if isStale && isDeployment(obj) {
							return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name)
						}
						return c.Get(ctx, key, obj, opts...)
					},
				}))
				_, err := r.reconcile()
				require.True(t, apierrors.IsConflict(err), "%v", err)
				assert.Equal(t, before, testenv.Refresh(t, env, d))
				testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")

				isStale = false // The event that updates the cache triggers the next reconcile.
				r.mustReconcile(t)
				assert.Equal(t, before, testenv.Refresh(t, env, d))
				testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionFalse, "DeploymentNameTaken")
			})
		})
	}
}

// isDeployment reports whether obj is a Deployment or the metadata of one.
func isDeployment(obj client.Object) bool {
	switch obj.(type) {
	case *appsv1.Deployment, *metav1.PartialObjectMetadata:
		return true
	default:
		return false
	}
}

func TestOwnersOfTheSameNameDoNotFight(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	first := busyboxKind.createReady(t, namespace, "web")
	d := testenv.WaitForDeployment(t, env, namespace, "web")
	before := d.DeepCopy()
	second := testenv.Create(t, env, memcachedKind.newObject(namespace, "web"))
	memcachedKind.waitForReady(t, second, metav1.ConditionFalse, "DeploymentNameTaken")
	assert.Equal(t, before, testenv.Refresh(t, env, d))
	busyboxKind.waitForReady(t, first, metav1.ConditionTrue, "AsExpected")
}

func TestOwnerTakesNameThatAnOwnerOfAnotherKindFrees(t *testing.T) {
	t.Parallel()
	for i, kind := range ownerKinds {
		other := ownerKinds[(i+1)%len(ownerKinds)]
		t.Run(kind.name+" after "+other.name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			startManager(t, namespace)
			previous := other.createReady(t, namespace, "web")
			obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
			kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
			d := testenv.WaitForDeployment(t, env, namespace, "web")
			testenv.Delete(t, env, previous)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				deleteOrphan(t, d, previous)
				assert.True(c, metav1.IsControlledBy(testenv.Refresh(c, env, d), obj))
			}, testenv.Timeout, testenv.Poll)
		})
	}
}

// deleteOrphan deletes the Deployment of a deleted owner, as the garbage collector does. A
// reconcile that has not seen the deletion of the owner can re-create the Deployment, so the
// caller repeats this.
func deleteOrphan(t *testing.T, d *appsv1.Deployment, owner client.Object) {
	t.Helper()
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d)
	if err == nil && metav1.IsControlledBy(d, owner) {
		err = env.Client.Delete(t.Context(), d, client.Preconditions{UID: &d.UID})
	}
	require.NoError(t, client.IgnoreNotFound(err))
}
