package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout bounds each wait for the cluster or the manager.
const timeout = 5 * time.Minute

// follower watches objects of the namespace and calls a function for each event.
type follower struct {
	client client.WithWatch

	mu  sync.Mutex
	err error

	changed  chan struct{} // Contains one element after an event.
	watching sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
}

// newFollower returns a follower that watches until end is called or the benchmark ends.
func newFollower(b *testing.B, c client.WithWatch) *follower {
	b.Helper()
	f := &follower{client: c, changed: make(chan struct{}, 1)}
	f.ctx, f.stop = context.WithCancel(b.Context())
	b.Cleanup(f.stop)
	return f
}

// follow calls add, with the lock held, for all existing objects of a kind, and then for each of
// their events.
func (f *follower) follow(b *testing.B, list client.ObjectList, add func(runtime.Object)) {
	b.Helper()
	require.NoError(b, f.client.List(f.ctx, list, client.InNamespace(namespace)))
	require.NoError(b, meta.EachListItem(list, func(object runtime.Object) error {
		f.deliver(object, add)
		return nil
	}))
	// A busy API server can end a watch. The next one continues at the same revision.
	events, err := watchtools.NewRetryWatcherWithContext(f.ctx, list.GetResourceVersion(), &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return f.client.Watch(ctx, list, &client.ListOptions{Namespace: namespace, Raw: &options})
		},
	})
	require.NoError(b, err)
	f.watching.Go(func() {
		defer events.Stop()
		for {
			select {
			case <-f.ctx.Done():
				return
			case e, open := <-events.ResultChan():
				if !open {
					return // The previous event has the error, unless the context has ended.
				}
				f.deliver(e.Object, add)
			}
		}
	})
}

func (f *follower) deliver(object runtime.Object, add func(runtime.Object)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, isStatus := object.(*metav1.Status); isStatus {
		f.err = errors.Join(f.err, fmt.Errorf("a watch missed events: %w", apierrors.FromObject(object)))
	} else {
		add(object)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// wait waits until isDone returns true. It calls isDone with the lock held.
func (f *follower) wait(b *testing.B, isDone func() bool) {
	b.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		f.mu.Lock()
		done, err := isDone(), f.err
		f.mu.Unlock()
		require.NoError(b, err)
		if done {
			return
		}
		select {
		case <-f.changed:
		case <-deadline.C:
			require.Fail(b, "the expected events did not arrive", "in %v", timeout)
		case <-f.ctx.Done():
			require.NoError(b, f.ctx.Err())
		}
	}
}

// end ends all watches. After it, no lock is needed to read what add stored.
func (f *follower) end(b *testing.B) {
	b.Helper()
	f.stop()
	f.watching.Wait()
	require.NoError(b, f.err)
}
