package recommendation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

const (
	// backfillStep is the time between two past samples.
	backfillStep = time.Minute
	// backfillTimeout bounds the reading of one Deployment's past.
	backfillTimeout = 5 * time.Minute
	// backfillConcurrency is the number of Deployments whose past is read at a time. Each query
	// is expensive.
	backfillConcurrency = 2
	// A backfill that fails is retried after backfillBackoff, doubling up to backfillBackoffCap.
	backfillBackoff    = time.Second
	backfillBackoffCap = time.Minute
)

// Backfiller is the controller that adds usage from before a scaler's creation to its history,
// so that the first recommendation is based on days of usage.
type Backfiller struct {
	*Recommender
	past   usage.HistoryProvider
	length time.Duration // How far back usage is read.
}

// addBackfiller adds the controller to the manager.
func addBackfiller(mgr ctrl.Manager, backfiller *Backfiller) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("backfill").
		For(&autoscalingv1beta1.VerticalScaler{}, builder.WithPredicates(specChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: backfillConcurrency,
			ReconciliationTimeout:   backfillTimeout,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				backfillBackoff, backfillBackoffCap),
		}).
		Complete(backfiller)
}

// specChanged accepts the events after which a scaler can need another history. The cache
// reports a scaler that was re-created between two lists as an update.
func specChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// Reconcile reads the past of a scaler's target, once.
func (b *Backfiller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scaler := &autoscalingv1beta1.VerticalScaler{}
	if err := b.cache.Get(ctx, req.NamespacedName, scaler); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if scaler.Spec.Suspend || scaler.Spec.DecodeError != "" || !scaler.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	// The first reading decides where the past ends.
	if err := b.WaitForHistory(ctx); err != nil {
		return ctrl.Result{}, err
	}
	workload := b.History(scaler)
	if workload.Backfilled() {
		return ctrl.Result{}, nil
	}
	end := workload.FirstSample()
	if end.IsZero() {
		end = time.Now()
	}
	// The range ends before the first sample, so that no sample counts twice.
	past, samples, err := b.read(ctx, scaler, workload.HalfLife(),
		usage.Range{From: end.Add(-b.length), To: end.Add(-backfillStep), Step: backfillStep})
	if err != nil {
		return ctrl.Result{}, err
	}
	workload.Backfill(past)
	log.FromContext(ctx).Info("Read past usage", "Deployment", scaler.Spec.DeploymentName, "samples", samples)
	return ctrl.Result{}, b.Trigger(ctx, scaler)
}

// read returns the histories of the containers of a scaler's target in a time range, and the
// number of samples in them.
func (b *Backfiller) read(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, halfLife time.Duration, span usage.Range,
) (past map[string]*recommender.History, samples int, err error) {
	past = map[string]*recommender.History{}
	deployment := scaler.Spec.DeploymentName
	for sample, err := range b.past.History(ctx, scaler.Namespace, podNames(deployment), span) {
		if err != nil {
			return nil, 0, fmt.Errorf("read the past usage of Deployment %s: %w", deployment, err)
		}
		if !sample.Usable() {
			continue
		}
		container := past[sample.Container]
		if container == nil {
			container = recommender.New(halfLife)
			past[sample.Container] = container
		}
		if container.AddCPU(sample.Time, sample.CPU) == nil && container.AddMemory(sample.Time, sample.Memory) == nil {
			samples++
		}
	}
	return past, samples, nil
}
