package owned

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/testenv"
)

// reconcileCounter counts the reconciles of each object.
type reconcileCounter struct {
	mutex  sync.Mutex
	counts map[client.ObjectKey]int
}

// funcs returns functions that count each read of an owner, because a reconcile starts with one.
func (r *reconcileCounter) funcs() interceptor.Funcs {
	r.counts = map[client.ObjectKey]int{}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if !isDeployment(obj) {
				r.mutex.Lock()
				r.counts[key]++
				r.mutex.Unlock()
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}
}

func (r *reconcileCounter) count(obj client.Object) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.counts[client.ObjectKeyFromObject(obj)]
}

// waitForReconcile makes a change and waits until a reconcile of the object has started after it.
func (r *reconcileCounter) waitForReconcile(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	before := r.count(obj)
	change()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Greater(c, r.count(obj), before)
	}, testenv.Timeout, testenv.Poll)
}

func TestOwnerWritesThreeTimesUntilAvailableAndThenNothing(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		var (
			writes     testenv.Writes
			reconciles reconcileCounter
		)
		m := startManager(t, namespace, writes.Record, testenv.Intercept(reconciles.funcs()))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		// The Deployment controller can write its status in as many steps.
		for _, step := range []func(*appsv1.DeploymentStatus){
			func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
			func(s *appsv1.DeploymentStatus) {
				s.Conditions = []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetCreated"},
				}
			},
			func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas, s.UnavailableReplicas = 2, 2, 2 },
			func(s *appsv1.DeploymentStatus) {
				s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas = 1, 1, 1
			},
		} {
			reconciles.waitForReconcile(t, obj, func() { setStatus(t, d, step) })
		}
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")

		// These changes trigger reconciles that have nothing to do.
		reconciles.waitForReconcile(t, obj, func() {
			testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Labels["note"] = "seen" })
		})
		reconciles.waitForReconcile(t, obj, func() {
			testenv.Edit(t, env, obj, func(obj client.Object) { obj.SetAnnotations(map[string]string{"note": "seen"}) })
		})
		assert.Never(t, func() bool { return len(writes.To("/deployments/"))+len(writes.To("/status")) > 3 }, testenv.Quiet, testenv.Poll)
		m.Stop()
		assert.Len(t, writes.To("/deployments/"), 1)
		assert.Len(t, writes.To("/status"), 2)
		events := 0
		if kind.recordCreation {
			events = 1
		}
		assert.Len(t, writes.All(), 3+events, "%v", writes.All())
	})
}

func TestRestartedManagerWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	var objects []client.Object
	for i, kind := range ownerKinds {
		objects = append(objects, kind.createReady(t, namespace, fmt.Sprintf("ready-%d", i)))

		inProgress := testenv.Create(t, env, kind.newObject(namespace, fmt.Sprintf("in-progress-%d", i)))
		kind.waitForReady(t, inProgress, metav1.ConditionFalse, "RolloutInProgress")

		name := fmt.Sprintf("taken-%d", i)
		testenv.Create(t, env, testenv.NewDeployment(namespace, name))
		nameTaken := testenv.Create(t, env, kind.newObject(namespace, name))
		kind.waitForReady(t, nameTaken, metav1.ConditionFalse, "DeploymentNameTaken")
		objects = append(objects, inProgress, nameTaken)
	}
	m.Stop()

	var (
		writes     testenv.Writes
		reconciles reconcileCounter
	)
	m = startManager(t, namespace, writes.Record, testenv.Intercept(reconciles.funcs()))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, obj := range objects {
			assert.Positive(c, reconciles.count(obj), obj.GetName())
		}
	}, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(writes.All()) > 0 }, testenv.Quiet, testenv.Poll)
	m.Stop()
	assert.Empty(t, writes.All())
}

func TestRestartedManagerRepairsWhatChangedWhileItWasDown(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		m := startManager(t, namespace)
		edited := kind.createReady(t, namespace, "edited")
		kind.createReady(t, namespace, "deleted")
		foreign := testenv.Create(t, env, testenv.NewDeployment(namespace, "taken"))
		nameTaken := testenv.Create(t, env, kind.newObject(namespace, "taken"))
		kind.waitForReady(t, nameTaken, metav1.ConditionFalse, "DeploymentNameTaken")
		m.Stop()

		editedDeployment := testenv.WaitForDeployment(t, env, namespace, "edited")
		testenv.Edit(t, env, editedDeployment, func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 })
		deletedDeployment := testenv.WaitForDeployment(t, env, namespace, "deleted")
		before := deletedDeployment.UID
		testenv.Delete(t, env, deletedDeployment)
		testenv.Delete(t, env, foreign)
		startManager(t, namespace)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(2), *testenv.Refresh(c, env, editedDeployment).Spec.Replicas)
			assert.NotEqual(c, before, testenv.Refresh(c, env, deletedDeployment).UID)
			assert.True(c, metav1.IsControlledBy(testenv.Refresh(c, env, foreign), nameTaken))
		}, testenv.Timeout, testenv.Poll)
		kind.waitForReady(t, edited, metav1.ConditionFalse, "RolloutInProgress")
	})
}
