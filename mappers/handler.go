// Package mappers turns an event's object into the requests that it means, one file a
// watched kind. Lookups read the cache's field indexes and nothing else.
package mappers

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A failed lookup is tried again after retryBase, then after twice as long each time, up to retryCap.
const (
	retryBase = 5 * time.Millisecond
	retryCap  = 30 * time.Second
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// NewFailures returns the counter of failed lookups, by mapper, registered with registerer.
func NewFailures(registerer prometheus.Registerer) (*prometheus.CounterVec, error) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "upright_map_failures_total",
		Help: "Lookups of a watched object's references that failed and were tried again, by mapper.",
	}, []string{"mapper"})
	return failures, registerer.Register(failures)
}

// mapping enqueues what lookup finds for the Deployment that an event is about. Unlike a
// plain map function it may fail and loses nothing by it: the lookup is tried again, apart
// from the event stream and from other Deployments' lookups, until it succeeds.
type mapping struct {
	name         string
	deploymentOf func(client.Object) types.NamespacedName
	lookup       func(context.Context, types.NamespacedName) ([]reconcile.Request, error)
	failures     prometheus.Counter

	backoff workqueue.TypedRateLimiter[types.NamespacedName]
	waiting sync.Map // The Deployments whose lookup is to be tried again.
}

// newHandler returns an event handler that enqueues the objects which reference the
// Deployment that deploymentOf says an event is about. Failures are counted under name.
func newHandler(
	name string,
	failures *prometheus.CounterVec,
	deploymentOf func(client.Object) types.NamespacedName,
	found references,
) handler.EventHandler {
	m := &mapping{
		name:         name,
		deploymentOf: deploymentOf,
		lookup:       found.requests,
		failures:     failures.WithLabelValues(name),
		backoff:      workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryBase, retryCap),
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) {
			m.enqueue(ctx, m.deploymentOf(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) {
			before, after := m.deploymentOf(e.ObjectOld), m.deploymentOf(e.ObjectNew)
			m.enqueue(ctx, after, q)
			if before != after {
				m.enqueue(ctx, before, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) {
			m.enqueue(ctx, m.deploymentOf(e.Object), q)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q Queue) {
			m.enqueue(ctx, m.deploymentOf(e.Object), q)
		},
	}
}

// enqueue adds what the Deployment's lookup finds, now or, where it fails, later. An event
// that is about no Deployment has nothing to look up.
func (m *mapping) enqueue(ctx context.Context, deployment types.NamespacedName, q Queue) {
	if deployment.Name != "" && !m.tryEnqueue(ctx, deployment, q) {
		// The context of an event ends when it has been handled.
		m.retryLater(context.WithoutCancel(ctx), deployment, q)
	}
}

// retryLater has the Deployment looked up again after a while, once for all events that wait
// for it, until that succeeds or the queue is shut down, as it is with its controller.
func (m *mapping) retryLater(ctx context.Context, deployment types.NamespacedName, q Queue) {
	if _, isWaiting := m.waiting.LoadOrStore(deployment, nil); isWaiting {
		return
	}
	time.AfterFunc(m.backoff.When(deployment), func() {
		m.waiting.Delete(deployment)
		if q.ShuttingDown() {
			return
		}
		attempt, cancel := context.WithTimeout(ctx, retryCap)
		defer cancel()
		if !m.tryEnqueue(attempt, deployment, q) {
			m.retryLater(ctx, deployment, q)
		}
	})
}

func (m *mapping) tryEnqueue(ctx context.Context, deployment types.NamespacedName, q Queue) bool {
	requests, err := m.lookup(ctx, deployment)
	if err != nil {
		m.failures.Inc()
		log.FromContext(ctx).Error(err, "Looking up what references a Deployment failed; it is tried again",
			"mapper", m.name, "Deployment", deployment)
		return false
	}
	m.backoff.Forget(deployment)
	for _, request := range requests {
		q.Add(request)
	}
	return true
}
