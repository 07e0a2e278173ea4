package mappers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
)

const (
	timeout  = 10 * time.Second
	interval = 2 * time.Millisecond
)

// flakyReader fails the given number of lookups for each key. It fails all lookups of a key with -1.
type flakyReader struct {
	client.Reader

	mu       sync.Mutex
	failures map[types.NamespacedName]int
	calls    map[types.NamespacedName]int
}

func (r *flakyReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.call(key); err != nil {
		return err
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

func (r *flakyReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	key := types.NamespacedName{Namespace: options.Namespace}
	if options.FieldSelector != nil {
		key.Name, _ = options.FieldSelector.RequiresExactMatch(indexers.VerticalScalerDeploymentName)
	}
	if err := r.call(key); err != nil {
		return err
	}
	return r.Reader.List(ctx, list, opts...)
}

// call counts a lookup and returns an error if it is to fail.
func (r *flakyReader) call(key types.NamespacedName) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[types.NamespacedName]int{}
	}
	r.calls[key]++
	left := r.failures[key]
	if left > 0 {
		r.failures[key]--
	}
	if left != 0 {
		return errors.New("the cache failed")
	}
	return nil
}

// lookups returns the number of lookups of a key.
func (r *flakyReader) lookups(key types.NamespacedName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[key]
}

// heal ends all failures.
func (r *flakyReader) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = nil
}

// deliver calls an event handler as controller-runtime does: the context ends with the call.
func deliver(ctx context.Context, call func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call(ctx)
}

func deliverCreate(ctx context.Context, mapper handler.EventHandler, namespace, name string, q Queue) {
	deliver(ctx, func(ctx context.Context) {
		mapper.Create(ctx, event.CreateEvent{Object: newDeployment(namespace, name)}, q)
	})
}

// counted returns the value of upright_map_failures_total by mapper.
func counted(t *testing.T, failures *prometheus.CounterVec) map[string]int {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(failures))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "upright_map_failures_total", families[0].GetName())
	counts := map[string]int{}
	for _, metric := range families[0].GetMetric() {
		require.Len(t, metric.GetLabel(), 1)
		require.Equal(t, "mapper", metric.GetLabel()[0].GetName())
		counts[metric.GetLabel()[0].GetValue()] = int(metric.GetCounter().GetValue())
	}
	return counts
}

// countOf returns the counts of a test that uses DeploymentToVerticalScalers alone.
func countOf(failures int) map[string]int {
	return map[string]int{"deployment-to-verticalscalers": failures}
}

func TestFailedLookupIsCountedAndRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "two", Name: "web"}
	for eventType, send := range map[string]func(context.Context, handler.EventHandler, Queue){
		"create": func(ctx context.Context, mapper handler.EventHandler, q Queue) {
			mapper.Create(ctx, event.CreateEvent{Object: newDeployment("two", "web")}, q)
		},
		"update": func(ctx context.Context, mapper handler.EventHandler, q Queue) {
			mapper.Update(ctx, event.UpdateEvent{
				ObjectOld: newDeployment("two", "web"), ObjectNew: newDeployment("two", "web"),
			}, q)
		},
		"delete": func(ctx context.Context, mapper handler.EventHandler, q Queue) {
			mapper.Delete(ctx, event.DeleteEvent{Object: newDeployment("two", "web")}, q)
		},
	} {
		for _, k := range []int{1, 3, 7} {
			t.Run(fmt.Sprintf("%s with %d failures", eventType, k), func(t *testing.T) {
				t.Parallel()
				reader := &flakyReader{
					Reader:   indexedReader(t, population()...),
					failures: map[types.NamespacedName]int{key: k},
				}
				failures, q := newFailures(t), newQueue(t)
				mapper := New(reader, failures).DeploymentToVerticalScalers()
				deliver(t.Context(), func(ctx context.Context) { send(ctx, mapper, q) })
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					assert.Equal(c, 1, q.Len())
				}, timeout, interval)
				assert.Equal(t, []string{"two/scaler-c"}, drain(q))
				assert.Equal(t, countOf(k), counted(t, failures))
				assert.Equal(t, k+1, reader.lookups(key))
			})
		}
	}
}

func TestEveryMapperCountsAndRetriesFailedLookups(t *testing.T) {
	t.Parallel()
	web := types.NamespacedName{Namespace: "two", Name: "web"}
	for name, test := range map[string]struct {
		mapper func(*Mappers) handler.EventHandler
		obj    client.Object
		lookup types.NamespacedName
		want   string
	}{
		"deployment-to-busyboxes":       {(*Mappers).DeploymentToBusyboxes, newDeployment("two", "web"), web, "two/web"},
		"deployment-to-memcacheds":      {(*Mappers).DeploymentToMemcacheds, newDeployment("two", "web"), web, "two/web"},
		"deployment-to-foos":            {(*Mappers).DeploymentToFoos, newDeployment("two", "web"), web, "two/foo-c"},
		"deployment-to-verticalscalers": {(*Mappers).DeploymentToVerticalScalers, newDeployment("two", "web"), web, "two/scaler-c"},
		"verticalscaler-to-siblings":    {(*Mappers).VerticalScalerToSiblings, newScaler("two", "deleted", "web"), web, "two/scaler-c"},
		"pod-to-verticalscalers":        {(*Mappers).PodToVerticalScalers, newPod("two", "web"), web, "two/scaler-c"},
		"horizontalpodautoscaler-to-verticalscalers": {
			(*Mappers).HorizontalPodAutoscalerToVerticalScalers, newHPA("two", "web"), web, "two/scaler-c",
		},
		"limitrange-to-verticalscalers": {
			(*Mappers).LimitRangeToVerticalScalers, &corev1.LimitRange{ObjectMeta: named("two", "limits")},
			types.NamespacedName{Namespace: "two"}, "two/scaler-c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &flakyReader{
				Reader:   indexedReader(t, population()...),
				failures: map[types.NamespacedName]int{test.lookup: 2},
			}
			failures, q := newFailures(t), newQueue(t)
			mapper := test.mapper(New(reader, failures))
			deliver(t.Context(), func(ctx context.Context) { mapper.Delete(ctx, event.DeleteEvent{Object: test.obj}, q) })
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Equal(c, 1, q.Len())
			}, timeout, interval)
			assert.Equal(t, []string{test.want}, drain(q))
			assert.Equal(t, map[string]int{name: 2}, counted(t, failures))
			assert.Equal(t, 3, reader.lookups(test.lookup))
		})
	}
}

func TestSuccessfulLookupResetsBackoff(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "two", Name: "web"}
	reader := &flakyReader{Reader: indexedReader(t, population()...)}
	failures, q := newFailures(t), newQueue(t)
	mapper := New(reader, failures).DeploymentToVerticalScalers()
	// Without the reset, the retry after the 20th failure would come after 30 s.
	for i := range 20 {
		reader.mu.Lock()
		reader.failures = map[types.NamespacedName]int{key: 1}
		reader.mu.Unlock()
		deliverCreate(t.Context(), mapper, "two", "web", q)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, []string{"two/scaler-c"}, drain(q))
		}, timeout, interval)
		require.Equal(t, countOf(i+1), counted(t, failures))
	}
}

func TestFailedLookupDoesNotDelayOtherDeployments(t *testing.T) {
	t.Parallel()
	broken := types.NamespacedName{Namespace: "one", Name: "web"}
	flaky := types.NamespacedName{Namespace: "one", Name: "other"}
	reader := &flakyReader{
		Reader:   indexedReader(t, population()...),
		failures: map[types.NamespacedName]int{broken: -1, flaky: 1},
	}
	failures, q := newFailures(t), newQueue(t)
	mapper := New(reader, failures).DeploymentToVerticalScalers()
	deliverCreate(t.Context(), mapper, "one", "web", q)
	deliverCreate(t.Context(), mapper, "two", "web", q)
	assert.Equal(t, []string{"two/scaler-c"}, drain(q), "a working lookup is not delayed")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, reader.lookups(broken), 5)
	}, timeout, interval)
	deliverCreate(t.Context(), mapper, "one", "other", q)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{"one/web"}, drain(q), "a retry is not delayed")
	}, timeout, interval)
	reader.heal()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, 2, q.Len(), "the broken lookup succeeds after the failures end")
	}, timeout, interval)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b"}, drain(q))
}

func TestRetriesBackOffTo30SecondsAndAreSharedByEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // Uses a fake clock.
		key := types.NamespacedName{Namespace: "two", Name: "web"}
		reader := &flakyReader{
			Reader:   indexedReader(t, population()...),
			failures: map[types.NamespacedName]int{key: -1},
		}
		q := newQueue(t)
		mapper := newMappers(t, reader).DeploymentToVerticalScalers()
		const events = 100
		for range events {
			deliverCreate(t.Context(), mapper, "two", "web", q)
		}
		// 5 ms doubled 12 times is 20 s, in total 41 s. Later retries come every 30 s.
		const doublingRetries = 13
		time.Sleep(time.Minute)
		assert.Equal(t, events+doublingRetries, reader.lookups(key))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, events+doublingRetries+20, reader.lookups(key))
		reader.heal()
		time.Sleep(retryCap)
		assert.Equal(t, []string{"two/scaler-c"}, drain(q))
		last := reader.lookups(key)
		time.Sleep(time.Hour)
		assert.Equal(t, last, reader.lookups(key), "no lookup after the success")
	})
}

func TestRetriedRequestKeepsPriorityOfItsEvent(t *testing.T) {
	t.Parallel()
	reader := &flakyReader{
		Reader: indexedReader(t, population()...),
		failures: map[types.NamespacedName]int{
			{Namespace: "one", Name: "other"}: 1,
			{Namespace: "two", Name: "web"}:   1,
		},
	}
	q := priorityqueue.New[reconcile.Request](t.Name())
	t.Cleanup(q.ShutDown)
	mapper := newMappers(t, reader).DeploymentToVerticalScalers()
	priorities := map[string]int{}
	for _, e := range []event.CreateEvent{
		{Object: newDeployment("one", "other"), IsInInitialList: true},
		{Object: newDeployment("two", "web")},
	} {
		deliver(t.Context(), func(ctx context.Context) { mapper.Create(ctx, e, q) })
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 1, q.Len()) }, timeout, interval)
		request, priority, _ := q.GetWithPriority()
		q.Done(request)
		priorities[request.String()] = priority
	}
	assert.Equal(t, map[string]int{"one/web": handler.LowPriority, "two/scaler-c": 0}, priorities)
}

func TestEventWithoutChangeHasLowPriority(t *testing.T) {
	t.Parallel()
	mapper := newMappers(t, indexedReader(t, population()...)).DeploymentToVerticalScalers()
	before, after := newDeployment("two", "web"), newDeployment("two", "web")
	before.ResourceVersion, after.ResourceVersion = "1", "2"
	for name, test := range map[string]struct {
		send func(context.Context, Queue)
		want int
	}{
		"create in the initial list": {func(ctx context.Context, q Queue) {
			mapper.Create(ctx, event.CreateEvent{Object: before, IsInInitialList: true}, q)
		}, handler.LowPriority},
		"update by a resync": {func(ctx context.Context, q Queue) {
			mapper.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: before}, q)
		}, handler.LowPriority},
		"create": {func(ctx context.Context, q Queue) { mapper.Create(ctx, event.CreateEvent{Object: before}, q) }, 0},
		"update": {func(ctx context.Context, q Queue) {
			mapper.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}, 0},
		"delete":  {func(ctx context.Context, q Queue) { mapper.Delete(ctx, event.DeleteEvent{Object: before}, q) }, 0},
		"generic": {func(ctx context.Context, q Queue) { mapper.Generic(ctx, event.GenericEvent{Object: before}, q) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := priorityqueue.New[reconcile.Request](t.Name())
			t.Cleanup(q.ShutDown)
			test.send(t.Context(), q)
			request, priority, _ := q.GetWithPriority()
			q.Done(request)
			assert.Equal(t, "two/scaler-c", request.String())
			assert.Equal(t, test.want, priority)
		})
	}
}

func TestRetriesEndWhenControllerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // Fails if a goroutine is left.
		key := types.NamespacedName{Namespace: "two", Name: "web"}
		reader := &flakyReader{
			Reader:   indexedReader(t, population()...),
			failures: map[types.NamespacedName]int{key: -1},
		}
		q := newQueue(t)
		mapper := newMappers(t, reader).DeploymentToVerticalScalers()
		deliverCreate(t.Context(), mapper, "two", "web", q)
		time.Sleep(time.Minute)
		last := reader.lookups(key)
		require.Greater(t, last, 4)
		q.ShutDown() // A controller does so when its context ends.
		time.Sleep(time.Hour)
		assert.Equal(t, last, reader.lookups(key), "no lookup after the shutdown")
	})
}

func TestMetricOfNewMapperIsZero(t *testing.T) {
	t.Parallel()
	failures := newFailures(t)
	New(indexedReader(t), failures).DeploymentToVerticalScalers()
	assert.Equal(t, countOf(0), counted(t, failures))
}

func TestFailuresMetricCannotBeRegisteredTwice(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := NewFailures(registry)
	require.NoError(t, err)
	_, err = NewFailures(registry)
	assert.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}
