package mappers

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A failed lookup is retried after retryBase. The delay doubles with each failure up to retryCap.
const (
	retryBase = 5 * time.Millisecond
	retryCap  = 30 * time.Second
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// lowPriority is the priority of events that report no change: those of a watch's initial list
// and those of a resync. Other events have the default priority, nil.
var lowPriority = new(handler.LowPriority)

// mapping is an event handler that looks up the key of an event's object and enqueues the result.
// A plain map function loses the event if its lookup fails. A mapping retries the lookup until it
// succeeds. Retries do not block other events or the lookups of other keys.
//
// It sets priorities as handler.Funcs does, but without the cost of reflection for each event.
type mapping struct {
	name     string
	keyOf    func(client.Object) types.NamespacedName
	find     lookup
	failures prometheus.Counter

	backoff workqueue.TypedRateLimiter[types.NamespacedName]
	waiting sync.Map // The keys whose lookup waits for a retry.
}

// newHandler returns an event handler that enqueues the result of find for the key of an event's
// object. Failed lookups count under name.
func (m *Mappers) newHandler(
	name string, keyOf func(client.Object) types.NamespacedName, find lookup,
) handler.EventHandler {
	return &mapping{
		name:     name,
		keyOf:    keyOf,
		find:     find,
		failures: m.failures.WithLabelValues(name),
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryBase, retryCap),
	}
}

// Create implements handler.EventHandler.
func (m *mapping) Create(ctx context.Context, e event.CreateEvent, q Queue) {
	var priority *int
	if e.IsInInitialList {
		priority = lowPriority
	}
	m.enqueue(ctx, m.keyOf(e.Object), q, priority)
}

// Update implements handler.EventHandler.
func (m *mapping) Update(ctx context.Context, e event.UpdateEvent, q Queue) {
	var priority *int
	if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
		priority = lowPriority
	}
	before, after := m.keyOf(e.ObjectOld), m.keyOf(e.ObjectNew)
	m.enqueue(ctx, after, q, priority)
	if before != after {
		m.enqueue(ctx, before, q, priority)
	}
}

// Delete implements handler.EventHandler.
func (m *mapping) Delete(ctx context.Context, e event.DeleteEvent, q Queue) {
	m.enqueue(ctx, m.keyOf(e.Object), q, nil)
}

// Generic implements handler.EventHandler.
func (m *mapping) Generic(ctx context.Context, e event.GenericEvent, q Queue) {
	m.enqueue(ctx, m.keyOf(e.Object), q, nil)
}

// enqueue looks up a key and enqueues the result. If the lookup fails, it is retried later. A key
// without a name belongs to an object that refers to no Deployment, so there is nothing to look up.
func (m *mapping) enqueue(ctx context.Context, key types.NamespacedName, q Queue, priority *int) {
	if key.Name != "" && !m.tryEnqueue(ctx, key, q, priority) {
		// The context of an event ends with the event handler's call.
		m.retryLater(context.WithoutCancel(ctx), key, q, priority)
	}
}

// retryLater retries the lookup of a key until it succeeds or until the controller shuts down its
// queue. All events that wait for the same key share one retry.
func (m *mapping) retryLater(ctx context.Context, key types.NamespacedName, q Queue, priority *int) {
	if _, isWaiting := m.waiting.LoadOrStore(key, nil); isWaiting {
		return
	}
	time.AfterFunc(m.backoff.When(key), func() {
		m.waiting.Delete(key)
		if q.ShuttingDown() {
			return
		}
		attempt, cancel := context.WithTimeout(ctx, retryCap)
		defer cancel()
		if !m.tryEnqueue(attempt, key, q, priority) {
			m.retryLater(ctx, key, q, priority)
		}
	})
}

// tryEnqueue looks up a key once, enqueues the result and reports whether the lookup succeeded.
func (m *mapping) tryEnqueue(ctx context.Context, key types.NamespacedName, q Queue, priority *int) bool {
	requests, err := m.find(ctx, key)
	if err != nil {
		m.failures.Inc()
		log.FromContext(ctx).Error(err, "Failed to look up the objects that refer to a changed object; will retry",
			"mapper", m.name, "key", key)
		return false
	}
	m.backoff.Forget(key)
	if priorities, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		priorities.AddWithOpts(priorityqueue.AddOpts{Priority: priority}, requests...)
		return true
	}
	for _, request := range requests {
		q.Add(request)
	}
	return true
}
