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

// record is all that happens to the owners and the Deployments of the namespace.
type record struct {
	*follower
	owners      []ownerState
	deployments []deploymentState
	available   map[string]int64 // The generation that an owner last said it is available for.
}

// startRecord begins a record, which must be before there is anything to record.
func startRecord(b *testing.B, c client.WithWatch) *record {
	b.Helper()
	r := &record{follower: newFollower(b, c), available: map[string]int64{}}
	for _, list := range []client.ObjectList{
		&examplev1alpha1.BusyboxList{}, &cachev1alpha1.MemcachedList{}, &appsv1.DeploymentList{},
	} {
		r.follow(b, list, r.add)
		require.Zero(b, meta.LenList(list))
	}
	return r
}

func (r *record) add(of runtime.Object) {
	switch object := of.(type) {
	case *appsv1.Deployment:
		r.deployments = append(r.deployments, stateOfDeployment(object))
	case *examplev1alpha1.Busybox:
		r.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	case *cachev1alpha1.Memcached:
		r.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	}
}

func (r *record) addOwner(object client.Object, image string, size *int32, conditions []metav1.Condition) {
	state := ownerState{
		revision: revision(object), name: object.GetName(), generation: object.GetGeneration(),
		wants: pods{count: ptr.Deref(size, 1), image: image},
	}
	available := meta.FindStatusCondition(conditions, examplev1alpha1.ConditionAvailable)
	if available != nil && available.Status == metav1.ConditionTrue {
		state.availableFor = available.ObservedGeneration
	}
	r.owners = append(r.owners, state)
	r.available[state.name] = state.availableFor
}

// waitAvailable waits until all objects say that they are available for a generation.
func (r *record) waitAvailable(b *testing.B, objects []client.Object, generation int64) {
	b.Helper()
	r.wait(b, func() bool {
		for _, object := range objects {
			if r.available[object.GetName()] < generation {
				return false
			}
		}
		return true
	})
}

// end ends the record once it has all that happened until now: that a Deployment
// which is created now is in it shows that those before it are.
func (r *record) end(b *testing.B, c client.Client) {
	b.Helper()
	last := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "the-last"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "the-last"}},
		},
	}
	last.Spec.Template.Labels = last.Spec.Selector.MatchLabels
	last.Spec.Template.Spec.Containers = append(last.Spec.Template.Spec.Containers, anyContainer())
	require.NoError(b, c.Create(b.Context(), last))
	r.wait(b, func() bool { return r.deployments[len(r.deployments)-1].revision >= revision(last) })
	r.follower.end(b)
}

// revision returns the revision of etcd that wrote the object, which can be
// compared between kinds: one etcd holds them all.
func revision(object client.Object) uint64 {
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err) // Not the API server that this was written for.
	}
	return revision
}
