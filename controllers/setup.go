// Package controllers sets up Upright's controllers.
package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/controllers/owned"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/controllers/verticalscaler"
	"example.com/upright/indexers"
	"example.com/upright/internal/cache"
	"example.com/upright/mappers"
)

// A failed reconcile is retried after backoffBase, doubling up to backoffCap.
const (
	backoffBase = 5 * time.Millisecond
	backoffCap  = 30 * time.Second
)

// reconcileTimeout bounds one reconcile, so that a request that hangs does not block a worker.
const reconcileTimeout = time.Minute

// Options configure all controllers.
type Options struct {
	// Concurrency is the number of objects of a kind that are reconciled at a time.
	Concurrency int
	// Namespaces are those that are watched; empty means all.
	Namespaces []string
	// Metrics is where the controllers' own metrics are registered.
	Metrics prometheus.Registerer
	// MaxConcurrentRollouts is how many rollouts of Deployments that Upright does not own may be in
	// progress at the same time.
	MaxConcurrentRollouts int
	// Usage configures where usage is read from, and how often.
	Usage recommendation.UsageOptions
}

// SetupWithManager adds all indexes and controllers to the manager. The manager must have been
// created with cache.Options and cache.ClientOptions of internal/cache. The returned channel is
// closed when the leader reconciles all kinds: scalers wait for the first reading of usage.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) (reconciling <-chan struct{}, err error) {
	source, err := recommendation.NewSource(mgr.GetConfig(), mgr.GetHTTPClient(), options.Namespaces, options.Usage)
	if err != nil {
		return nil, err
	}
	if err := indexers.AddAll(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	failures, err := mappers.NewFailures(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("create a client without a cache: %w", err)
	}
	mapper := mappers.New(mgr.GetCache(), failures)
	if err := owned.AddToManager(mgr, mapper, options.controllerOptions); err != nil {
		return nil, err
	}
	recommender, err := recommendation.AddToManager(ctx, mgr, source, recommendation.Options{
		Namespaces: options.Namespaces, Metrics: options.Metrics, Usage: options.Usage, Uncached: uncached,
	})
	if err != nil {
		return nil, err
	}
	tables, err := sizetable.AddToManager(mgr, options.controllerOptions(), recommender.Trigger)
	if err != nil {
		return nil, err
	}
	if err := verticalscaler.AddToManager(ctx, mgr, mapper, recommender, verticalscaler.Options{
		Metrics: options.Metrics, Uncached: uncached, Tables: tables,
		MaxConcurrentRollouts: options.MaxConcurrentRollouts, Controller: options.controllerOptions(),
	}); err != nil {
		return nil, err
	}
	return recommender.FirstReading(), startInformers(ctx, mgr.GetCache())
}

// startInformers starts the informers that only the controllers need. Controllers start their own
// informers later, so a replica would seem to have filled its caches before.
func startInformers(ctx context.Context, informers ctrlcache.Cache) error {
	for _, kind := range []client.Object{
		&examplev1alpha1.Busybox{}, &cachev1alpha1.Memcached{}, &autoscalingv1beta1.SizeTable{}, cache.NewDeploymentMetadata(),
	} {
		if _, err := informers.GetInformer(ctx, kind, ctrlcache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cache %T: %w", kind, err)
		}
	}
	return nil
}

// controllerOptions returns the options of one controller. Each controller has a rate limiter of
// its own, which counts only the failures of its own objects.
func (o Options) controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: o.Concurrency,
		ReconciliationTimeout:   reconcileTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backoffBase, backoffCap),
	}
}
