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

// follower hands on what watches show of the objects of the namespace.
type follower struct {
	client client.WithWatch

	mu  sync.Mutex
	err error

	changed  chan struct{} // Holds one element when something was handed on.
	watching sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
}

// newFollower returns a follower that watches until it is stopped or the benchmark ends.
func newFollower(b *testing.B, c client.WithWatch) *follower {
	b.Helper()
	f := &follower{client: c, changed: make(chan struct{}, 1)}
	f.ctx, f.stop = context.WithCancel(b.Context())
	b.Cleanup(f.stop)
	return f
}

// follow calls add, with the lock held, for the objects that there are of a list's kind, and
// then for each revision of one.
func (f *follower) follow(b *testing.B, list client.ObjectList, add func(runtime.Object)) {
	b.Helper()
	require.NoError(b, f.client.List(f.ctx, list, client.InNamespace(namespace)))
	require.NoError(b, meta.EachListItem(list, func(object runtime.Object) error {
		f.handOn(object, add)
		return nil
	}))
	// Where the API server, being busy, ends a watch, the next begins where that one ended.
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
					return // The event before it says why, unless the context has ended.
				}
				f.handOn(e.Object, add)
			}
		}
	})
}

func (f *follower) handOn(object runtime.Object, add func(runtime.Object)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, isStatus := object.(*metav1.Status); isStatus {
		f.err = errors.Join(f.err, fmt.Errorf("a watch has a gap: %w", apierrors.FromObject(object)))
	} else {
		add(object)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// wait waits until done, called with the lock held, reports that what it waits for has happened.
func (f *follower) wait(b *testing.B, done func() bool) {
	b.Helper()
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		f.mu.Lock()
		is, err := done(), f.err
		f.mu.Unlock()
		require.NoError(b, err)
		if is {
			return
		}
		select {
		case <-f.changed:
		case <-late.C:
			require.Fail(b, "what is waited for has not happened", "in %v", timeout)
		case <-f.ctx.Done():
			require.NoError(b, f.ctx.Err())
		}
	}
}

// end ends all watches. What was handed on can then be read without the lock.
func (f *follower) end(b *testing.B) {
	b.Helper()
	f.stop()
	f.watching.Wait()
	require.NoError(b, f.err)
}
