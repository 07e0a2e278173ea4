package controllers

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
)

// witness counts the passes over each object.
type witness struct {
	mu   sync.Mutex
	seen map[client.ObjectKey]int
}

// funcs makes a client tell the witness of each pass, which begins with a read of the object.
func (w *witness) funcs() interceptor.Funcs {
	w.seen = map[client.ObjectKey]int{}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			_, whole := obj.(*appsv1.Deployment)
			_, metadata := obj.(*metav1.PartialObjectMetadata)
			if !whole && !metadata {
				w.mu.Lock()
				w.seen[key]++
				w.mu.Unlock()
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}
}

func (w *witness) passes(obj client.Object) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[client.ObjectKeyFromObject(obj)]
}

// seesAPass makes a change and waits until a pass over the object has begun after it.
func (w *witness) seesAPass(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	before := w.passes(obj)
	change()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Greater(c, w.passes(obj), before)
	}, soon, often)
}

func TestOwnersWriteAtMostThreeTimesUntilAvailableAndNotAfterwards(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		var (
			wrote writes
			sees  witness
		)
		m := startManager(t, namespace, wrote.record, intercept(sees.funcs()))
		obj := create(t, kind.newObject(namespace, "box"))
		d := deployment(t, namespace, "box")
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		// As many steps as a Deployment controller may take.
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
			sees.seesAPass(t, obj, func() { setStatus(t, d, step) })
		}
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")

		// Passes that find nothing to do.
		sees.seesAPass(t, obj, func() { edit(t, d, func(d *appsv1.Deployment) { d.Labels["note"] = "seen" }) })
		sees.seesAPass(t, obj, func() {
			edit(t, obj, func(obj client.Object) { obj.SetAnnotations(map[string]string{"note": "seen"}) })
		})
		assert.Never(t, func() bool { return len(wrote.to("/deployments/"))+len(wrote.to("/status")) > 3 }, aWhile, often)
		m.stop()
		assert.Len(t, wrote.to("/deployments/"), 1)
		assert.Len(t, wrote.to("/status"), 2)
		events := 0
		if kind.tellCreated {
			events = 1
		}
		assert.Len(t, wrote.all(), 3+events, "%v", wrote.all())
	})
}

func TestManagerWritesNothingAfterARestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	var objects []client.Object
	for i, kind := range ownerKinds {
		for _, state := range []string{"ready", "waiting", "taken"} {
			name := fmt.Sprintf("%s-%d", state, i)
			switch state {
			case "ready":
				objects = append(objects, kind.bringUp(t, namespace, name))
			case "waiting":
				obj := create(t, kind.newObject(namespace, name))
				kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
				objects = append(objects, obj)
			default:
				create(t, foreign(namespace, name))
				obj := create(t, kind.newObject(namespace, name))
				kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
				objects = append(objects, obj)
			}
		}
	}
	m.stop()

	var (
		wrote writes
		sees  witness
	)
	m = startManager(t, namespace, wrote.record, intercept(sees.funcs()))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, obj := range objects {
			assert.Positive(c, sees.passes(obj), obj.GetName())
		}
	}, soon, often)
	assert.Never(t, func() bool { return len(wrote.all()) > 0 }, aWhile, often)
	m.stop()
	assert.Empty(t, wrote.all())
}

// TestManagerRepairsAfterARestartWhatDriftedMeanwhile shows that what happens while no manager runs is not lost.
func TestManagerRepairsAfterARestartWhatDriftedMeanwhile(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		m := startManager(t, namespace)
		drifted := kind.bringUp(t, namespace, "drifted")
		kind.bringUp(t, namespace, "deleted")
		blocked := foreign(namespace, "blocked")
		create(t, blocked)
		waiting := create(t, kind.newObject(namespace, "blocked"))
		kind.is(t, waiting, metav1.ConditionFalse, "DeploymentNameTaken")
		m.stop()

		spoiled := deployment(t, namespace, "drifted")
		edit(t, spoiled, func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 })
		deleted := deployment(t, namespace, "deleted")
		before := deleted.UID
		require.NoError(t, env.Client.Delete(t.Context(), deleted))
		require.NoError(t, env.Client.Delete(t.Context(), blocked))
		startManager(t, namespace)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(2), *refresh(c, spoiled).Spec.Replicas)
			assert.NotEqual(c, before, refresh(c, deleted).UID)
			assert.True(c, metav1.IsControlledBy(refresh(c, blocked), waiting))
		}, soon, often)
		kind.is(t, drifted, metav1.ConditionFalse, "RolloutInProgress")
	})
}
