package bench

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// stateLog contains all states of the owners and Deployments of the namespace.
type stateLog struct {
	*follower
	owners      []ownerState
	deployments []deploymentState
	available   map[string]int64 // By an owner's name, its latest availableFor.
}

// startStateLog starts the log. There must be no owner or Deployment yet.
func startStateLog(b *testing.B, c client.WithWatch) *stateLog {
	b.Helper()
	l := &stateLog{follower: newFollower(b, c), available: map[string]int64{}}
	for _, list := range []client.ObjectList{
		&examplev1alpha1.BusyboxList{}, &cachev1alpha1.MemcachedList{}, &appsv1.DeploymentList{},
	} {
		l.follow(b, list, l.add)
		require.Zero(b, meta.LenList(list))
	}
	return l
}

func (l *stateLog) add(state runtime.Object) {
	switch object := state.(type) {
	case *appsv1.Deployment:
		l.deployments = append(l.deployments, stateOfDeployment(object))
	case *examplev1alpha1.Busybox:
		l.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	case *cachev1alpha1.Memcached:
		l.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	}
}

func (l *stateLog) addOwner(object client.Object, image string, size *int32, conditions []metav1.Condition) {
	state := ownerState{
		revision: revision(object), name: object.GetName(), generation: object.GetGeneration(),
		desired: pods{count: ptr.Deref(size, 1), image: image},
	}
	available := meta.FindStatusCondition(conditions, examplev1alpha1.ConditionAvailable)
	if available != nil && available.Status == metav1.ConditionTrue {
		state.availableFor = available.ObservedGeneration
	}
	l.owners = append(l.owners, state)
	l.available[state.name] = state.availableFor
}

// waitAvailable waits until all objects have Available=True for a generation.
func (l *stateLog) waitAvailable(b *testing.B, objects []client.Object, generation int64) {
	b.Helper()
	l.wait(b, func() bool {
		for _, object := range objects {
			if l.available[object.GetName()] < generation {
				return false
			}
		}
		return true
	})
}

// end ends the log when it contains everything that happened until now. To find out, it creates a
// Deployment and waits until that is in the log.
func (l *stateLog) end(b *testing.B, c client.Client) {
	b.Helper()
	last := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "last"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "last"}},
		},
	}
	last.Spec.Template.Labels = last.Spec.Selector.MatchLabels
	last.Spec.Template.Spec.Containers = append(last.Spec.Template.Spec.Containers, anyContainer())
	require.NoError(b, c.Create(b.Context(), last))
	l.wait(b, func() bool { return l.deployments[len(l.deployments)-1].revision >= revision(last) })
	l.follower.end(b)
}

// revision returns the object's revision in etcd. Revisions of different kinds can be compared,
// because one etcd contains them all.
func revision(object client.Object) uint64 {
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err) // The API server in use always writes a number.
	}
	return revision
}
