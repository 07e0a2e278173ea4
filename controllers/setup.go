// Package controllers holds Upright's reconcilers.
package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
	"example.com/upright/mappers"
)

// A failed pass is tried again after backoffBase, then after twice as long each time, up to backoffCap.
const (
	backoffBase = 5 * time.Millisecond
	backoffCap  = 30 * time.Second
)

// passTimeout bounds one pass, so that a request that hangs does not hold a worker for good.
const passTimeout = time.Minute

// Options are the settings of all controllers.
type Options struct {
	// Concurrency is the number of objects of a kind that are reconciled at a time.
	Concurrency int
	// Metrics is where the controllers' own metrics are registered.
	Metrics prometheus.Registerer
}

// shared is what every controller is set up with.
type shared struct {
	concurrency int
	mapFailures *prometheus.CounterVec
}

// controllerOptions returns the options of one controller; a rate limiter counts the
// failures of one controller's objects alone.
func (s shared) controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: s.concurrency,
		ReconciliationTimeout:   passTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backoffBase, backoffCap),
	}
}

// SetupWithManager adds every index and every controller to the manager. The manager's cache
// and client must have been made with CacheOptions and ClientOptions.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	mapFailures, err := mappers.NewFailures(options.Metrics)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	with := shared{concurrency: options.Concurrency, mapFailures: mapFailures}
	const (
		busybox   = "upright-busybox"
		memcached = "upright-memcached"
		foo       = "upright-foo"
		scaler    = "upright-verticalscaler"
	)
	c, recorder := mgr.GetClient(), mgr.GetEventRecorder
	for kind, reconciler := range map[string]interface {
		setup(ctrl.Manager, shared) error
	}{
		"Busybox": &BusyboxReconciler{deploymentOwner{
			Client: c, recorder: recorder(busybox), fieldOwner: busybox,
		}},
		"Memcached": &MemcachedReconciler{deploymentOwner{
			Client: c, recorder: recorder(memcached), fieldOwner: memcached,
		}},
		"Foo": &FooReconciler{deploymentOwner{
			Client: c, recorder: recorder(foo), fieldOwner: foo, tellCreated: true,
		}},
		"VerticalScaler": &VerticalScalerReconciler{
			Client: c, recorder: recorder(scaler), fieldOwner: scaler,
		},
	} {
		if err := reconciler.setup(mgr, with); err != nil {
			return fmt.Errorf("set up the %s controller: %w", kind, err)
		}
	}
	return nil
}

// setupOwner adds the controller of a kind that owns Deployments. Named maps a Deployment to
// the objects that want its name.
func setupOwner(
	mgr ctrl.Manager, with shared, kind client.Object, named handler.EventHandler, reconciler reconcile.Reconciler,
) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(kind).
		Owns(&appsv1.Deployment{}).
		// Whichever of the two caches hears later that a name is free, a pass comes after it.
		Watches(newDeploymentMetadata(), named, builder.OnlyMetadata, builder.WithPredicates(controllerChanged())).
		Watches(&appsv1.Deployment{}, named, builder.WithPredicates(controllerChanged())).
		WithOptions(with.controllerOptions()).
		Complete(reconciler)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, add := range []func(context.Context, client.FieldIndexer) error{
		indexers.AddBusyboxName,
		indexers.AddMemcachedName,
		indexers.AddFooDeploymentName,
		indexers.AddVerticalScalerDeploymentName,
		indexers.AddDeploymentController,
	} {
		if err := add(ctx, indexer); err != nil {
			return err
		}
	}
	return nil
}
