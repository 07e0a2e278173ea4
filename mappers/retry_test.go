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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
)

const (
	soon  = 10 * time.Second
	often = 2 * time.Millisecond
)

// flakyReader fails as many lookups of each Deployment as it is told to; -1 is for ever.
type flakyReader struct {
	client.Reader

	mu       sync.Mutex
	failures map[types.NamespacedName]int
	asked    map[types.NamespacedName]int
}

func (r *flakyReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	name, _ := options.FieldSelector.RequiresExactMatch(indexers.VerticalScalerDeploymentName)
	key := types.NamespacedName{Namespace: options.Namespace, Name: name}
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[types.NamespacedName]int{}
	}
	r.asked[key]++
	left := r.failures[key]
	if left > 0 {
		r.failures[key]--
	}
	r.mu.Unlock()
	if left != 0 {
		return errors.New("the cache is not in the mood")
	}
	return r.Reader.List(ctx, list, opts...)
}

// lookups returns how often a Deployment was looked up.
func (r *flakyReader) lookups(key types.NamespacedName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[key]
}

// heal ends all failures.
func (r *flakyReader) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = nil
}

// deliver hands an event over as controller-runtime does: its context ends with the call.
func deliver(ctx context.Context, call func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call(ctx)
}

func created(ctx context.Context, mapper handler.EventHandler, namespace, name string, q Queue) {
	deliver(ctx, func(ctx context.Context) {
		mapper.Create(ctx, event.CreateEvent{Object: newDeployment(namespace, name)}, q)
	})
}

// counted returns the failures of DeploymentToVerticalScalers so far.
func counted(t *testing.T, failures *prometheus.CounterVec) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(failures))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "upright_map_failures_total", families[0].GetName())
	require.Len(t, families[0].GetMetric(), 1)
	metric := families[0].GetMetric()[0]
	require.Equal(t, "deployment-to-verticalscalers", metric.GetLabel()[0].GetValue())
	return int(metric.GetCounter().GetValue())
}

func TestAnEventWhoseLookupFailsStillEndsInARequestAndTheFailuresAreCounted(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "two", Name: "web"}
	for kind, send := range map[string]func(context.Context, handler.EventHandler, Queue){
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
			t.Run(fmt.Sprintf("%s, %d times", kind, k), func(t *testing.T) {
				t.Parallel()
				reader := &flakyReader{
					Reader:   indexedReader(t, population()...),
					failures: map[types.NamespacedName]int{key: k},
				}
				failures, q := newFailures(t), newQueue(t)
				mapper := DeploymentToVerticalScalers(reader, failures)
				deliver(t.Context(), func(ctx context.Context) { send(ctx, mapper, q) })
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					assert.Equal(c, 1, q.Len())
				}, soon, often)
				assert.Equal(t, []string{"two/scaler-c"}, drain(q))
				assert.Equal(t, k, counted(t, failures))
				assert.Equal(t, k+1, reader.lookups(key))
			})
		}
	}
}

func TestAfterALookupHasSucceededTheNextFailureIsRetriedAtOnceAgain(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "two", Name: "web"}
	reader := &flakyReader{Reader: indexedReader(t, population()...)}
	failures, q := newFailures(t), newQueue(t)
	mapper := DeploymentToVerticalScalers(reader, failures)
	// Were the waiting times not forgotten, the 20th failure would wait for 30 s.
	for i := range 20 {
		reader.mu.Lock()
		reader.failures = map[types.NamespacedName]int{key: 1}
		reader.mu.Unlock()
		created(t.Context(), mapper, "two", "web", q)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, []string{"two/scaler-c"}, drain(q))
		}, soon, often)
		require.Equal(t, i+1, counted(t, failures))
	}
}

func TestFailingLookupsOfOneDeploymentDoNotHoldUpAnothers(t *testing.T) {
	t.Parallel()
	broken := types.NamespacedName{Namespace: "one", Name: "web"}
	flaky := types.NamespacedName{Namespace: "one", Name: "other"}
	reader := &flakyReader{
		Reader:   indexedReader(t, population()...),
		failures: map[types.NamespacedName]int{broken: -1, flaky: 1},
	}
	failures, q := newFailures(t), newQueue(t)
	mapper := DeploymentToVerticalScalers(reader, failures)
	created(t.Context(), mapper, "one", "web", q)
	created(t.Context(), mapper, "two", "web", q)
	assert.Equal(t, []string{"two/scaler-c"}, drain(q), "a lookup that works is not held up")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, reader.lookups(broken), 5)
	}, soon, often)
	created(t.Context(), mapper, "one", "other", q)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{"one/web"}, drain(q), "nor is a retry")
	}, soon, often)
	reader.heal()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, 2, q.Len(), "and the broken one comes through in the end")
	}, soon, often)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b"}, drain(q))
}

func TestALookupThatKeepsFailingIsTriedEvery30SecondsInTheEndHoweverManyEventsWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // Time passes in no time.
		key := types.NamespacedName{Namespace: "two", Name: "web"}
		reader := &flakyReader{
			Reader:   indexedReader(t, population()...),
			failures: map[types.NamespacedName]int{key: -1},
		}
		q := newQueue(t)
		mapper := DeploymentToVerticalScalers(reader, newFailures(t))
		const events = 100
		for range events {
			created(t.Context(), mapper, "two", "web", q)
		}
		// 5 ms doubled 12 times is 20 s, and 41 s in sum; after that it is every 30 s.
		const doubling = 13
		time.Sleep(time.Minute)
		assert.Equal(t, events+doubling, reader.lookups(key))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, events+doubling+20, reader.lookups(key))
		reader.heal()
		time.Sleep(retryCap)
		assert.Equal(t, []string{"two/scaler-c"}, drain(q))
		last := reader.lookups(key)
		time.Sleep(time.Hour)
		assert.Equal(t, last, reader.lookups(key), "all is done")
	})
}

func TestARetriedRequestKeepsThePriorityOfItsEvent(t *testing.T) {
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
	mapper := DeploymentToVerticalScalers(reader, newFailures(t))
	priorities := map[string]int{}
	for _, e := range []event.CreateEvent{
		{Object: newDeployment("one", "other"), IsInInitialList: true},
		{Object: newDeployment("two", "web")},
	} {
		deliver(t.Context(), func(ctx context.Context) { mapper.Create(ctx, e, q) })
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 1, q.Len()) }, soon, often)
		request, priority, _ := q.GetWithPriority()
		q.Done(request)
		priorities[request.String()] = priority
	}
	assert.Equal(t, map[string]int{"one/web": handler.LowPriority, "two/scaler-c": 0}, priorities)
}

func TestRetriesEndWithTheControllerAndLeaveNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // It fails where a goroutine is left.
		key := types.NamespacedName{Namespace: "two", Name: "web"}
		reader := &flakyReader{
			Reader:   indexedReader(t, population()...),
			failures: map[types.NamespacedName]int{key: -1},
		}
		q := newQueue(t)
		mapper := DeploymentToVerticalScalers(reader, newFailures(t))
		created(t.Context(), mapper, "two", "web", q)
		time.Sleep(time.Minute)
		last := reader.lookups(key)
		require.Greater(t, last, 4)
		q.ShutDown() // As a controller does when its context ends.
		time.Sleep(time.Hour)
		assert.Equal(t, last, reader.lookups(key), "no lookup after the end")
	})
}

func TestAMapperThatNeverFailedShowsAsZeroInTheMetric(t *testing.T) {
	t.Parallel()
	failures := newFailures(t)
	DeploymentToVerticalScalers(indexedReader(t), failures)
	assert.Zero(t, counted(t, failures))
}

func TestTheFailuresMetricCannotBeRegisteredTwice(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := NewFailures(registry)
	require.NoError(t, err)
	_, err = NewFailures(registry)
	assert.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}
