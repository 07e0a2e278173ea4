// Package controllers holds Upright's reconcilers.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
	"example.com/upright/internal/histories"
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
	// Namespaces are those that are watched; none stands for all.
	Namespaces []string
	// Metrics is where the controllers' own metrics are registered.
	Metrics prometheus.Registerer
	// Usage says where usage is read.
	Usage UsageOptions
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
// and client must have been made with CacheOptions and ClientOptions. The channel that it
// returns is closed when a leader that stops has saved what it learned.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) (saved <-chan struct{}, err error) {
	source, err := newUsageSource(mgr, options)
	if err != nil {
		return nil, err
	}
	return setup(ctx, mgr, options, source)
}

// setup is SetupWithManager with a given source of usage.
func setup(ctx context.Context, mgr ctrl.Manager, options Options, source usageSource) (saved <-chan struct{}, err error) {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	mapFailures, err := mappers.NewFailures(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	with := shared{concurrency: options.Concurrency, mapFailures: mapFailures}
	const (
		busybox   = "upright-busybox"
		memcached = "upright-memcached"
		foo       = "upright-foo"
		scaler    = "upright-verticalscaler"
	)
	c, recorder := mgr.GetClient(), mgr.GetEventRecorder
	scalers, err := newVerticalScalerReconciler(ctx, mgr, options, source, scaler)
	if err != nil {
		return nil, err
	}
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
		"VerticalScaler": scalers,
	} {
		if err := reconciler.setup(mgr, with); err != nil {
			return nil, fmt.Errorf("set up the %s controller: %w", kind, err)
		}
	}
	return scalers.checkpoints.saved, nil
}

// newVerticalScalerReconciler returns the reconciler of VerticalScalers, and adds to the
// manager what learns for it.
func newVerticalScalerReconciler(
	ctx context.Context, mgr ctrl.Manager, options Options, source usageSource, name string,
) (*VerticalScalerReconciler, error) {
	// The first reading of usage, which may come before any controller has started, takes these.
	for _, kind := range []client.Object{&corev1.Node{}, &corev1.LimitRange{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("cache %T: %w", kind, err)
		}
	}
	metrics, err := newUsageMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	applyMetrics, err := newApplyMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("create a client without a cache: %w", err)
	}
	advisor := &advisor{cache: mgr.GetCache(), histories: histories.NewStore()}
	checkpoints := &Checkpointer{
		Client: uncached, namespaces: options.Namespaces, fieldOwner: client.FieldOwner(name),
		histories: advisor.histories, interval: options.Usage.CheckpointInterval, metrics: metrics,
		saved: make(chan struct{}),
	}
	collector := newUsageCollector(advisor, checkpoints.restore, source, options.Usage.Interval, metrics)
	past := newBackfiller(collector, source.past, options.Usage.History)
	admission, err := newAdmission(ctx, mgr, collector.wakeAll)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(mgr.Add(checkpoints), mgr.Add(collector), mgr.Add(past), mgr.Add(admission)); err != nil {
		return nil, fmt.Errorf("add what learns from usage: %w", err)
	}
	if err := options.Metrics.Register(newRecommendationMetrics(collector, mgr.Elected())); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &VerticalScalerReconciler{
		Client: mgr.GetClient(), recorder: mgr.GetEventRecorder(name), fieldOwner: client.FieldOwner(name),
		uncached: uncached, targets: &targetDeployments{server: uncached, known: map[types.NamespacedName]*appsv1.Deployment{}},
		resizer: &resizer{
			Client: mgr.GetClient(), fieldOwner: client.FieldOwner(name), recorder: mgr.GetEventRecorder(name),
			metrics: applyMetrics, refused: map[types.UID]refusal{},
		},
		admission: admission, checkpoints: checkpoints, usage: collector, past: past,
	}, nil
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
		indexers.AddPodDeployment,
		indexers.AddHorizontalPodAutoscalerDeploymentName,
	} {
		if err := add(ctx, indexer); err != nil {
			return err
		}
	}
	return nil
}
