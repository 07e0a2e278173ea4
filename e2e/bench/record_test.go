package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// record is all that happens to the owners and the Deployments of the namespace.
type record struct {
	mu          sync.Mutex
	owners      []ownerState
	deployments []deploymentState
	available   map[string]int64 // The generation that an owner last said it is available for.
	err         error

	changed  chan struct{} // Holds one element when something was added.
	watching sync.WaitGroup
	stop     context.CancelFunc
}

// startRecord begins a record, which must be before there is anything to record.
func startRecord(b *testing.B, c client.WithWatch) *record {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	r := &record{available: map[string]int64{}, changed: make(chan struct{}, 1), stop: stop}
	b.Cleanup(stop)
	for _, list := range []client.ObjectList{
		&examplev1alpha1.BusyboxList{}, &cachev1alpha1.MemcachedList{}, &appsv1.DeploymentList{},
	} {
		require.NoError(b, c.List(ctx, list, client.InNamespace(namespace)))
		require.Zero(b, meta.LenList(list))
		// Where the API server, being busy, ends a watch, the next begins where that one ended.
		events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &toolscache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, list, &client.ListOptions{Namespace: namespace, Raw: &options})
			},
		})
		require.NoError(b, err)
		r.watching.Go(func() { r.follow(ctx, events) })
	}
	return r
}

// follow adds the events to the record until the context ends.
func (r *record) follow(ctx context.Context, events watch.Interface) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events.ResultChan():
			if !open {
				return // The event before it says why, unless the context has ended.
			}
			r.add(e.Object)
		}
	}
}

func (r *record) add(of runtime.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch object := of.(type) {
	case *appsv1.Deployment:
		r.deployments = append(r.deployments, stateOfDeployment(object))
	case *examplev1alpha1.Busybox:
		r.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	case *cachev1alpha1.Memcached:
		r.addOwner(object, object.Spec.Image, object.Spec.Size, object.Status.Conditions)
	default:
		r.err = errors.Join(r.err, fmt.Errorf("a watch has a gap: %w", apierrors.FromObject(of)))
	}
	select {
	case r.changed <- struct{}{}:
	default:
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
	r.stop()
	r.watching.Wait()
	require.NoError(b, r.err)
}

// wait waits until done, called with the lock held, reports that what it waits for has happened.
func (r *record) wait(b *testing.B, done func() bool) {
	b.Helper()
	for {
		r.mu.Lock()
		is, err := done(), r.err
		r.mu.Unlock()
		require.NoError(b, err)
		if is {
			return
		}
		select {
		case <-r.changed:
		case <-b.Context().Done():
			require.NoError(b, b.Context().Err())
		}
	}
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
