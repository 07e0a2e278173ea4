package recommendation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
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
	"example.com/upright/internal/history"
	"example.com/upright/internal/usage"
)

const (
	// backfillTimeout bounds the reading of one Deployment's past until others get their turn. A
	// part that has been read counts.
	backfillTimeout = 5 * time.Minute
	// backfillTurn is the time after which the past of other Deployments is read.
	backfillTurn = time.Minute
	// backfillConcurrency is the number of Deployments whose past is read at a time. Each query
	// is expensive.
	backfillConcurrency = 2
	// A backfill that fails is retried after backfillBackoff, doubling up to backfillBackoffCap.
	// All of them together are retried backfillRetries times per second.
	backfillBackoff    = time.Second
	backfillBackoffCap = time.Minute
	backfillRetries    = 1
	backfillBurst      = 10
	// backfillPause is the time after which a backfill that was refused is tried again.
	backfillPause = time.Hour
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
		For(&autoscalingv1beta1.VerticalScaler{}, builder.WithPredicates(needsPast())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: backfillConcurrency,
			ReconciliationTimeout:   backfillTimeout,
			RateLimiter: workqueue.NewTypedMaxOfRateLimiter(
				workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backfillBackoff, backfillBackoffCap),
				&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(backfillRetries, backfillBurst)},
			),
		}).
		Complete(backfiller)
}

// needsPast accepts the events after which a scaler can need the past of another target, or
// continues. Others would bypass the backoff. The cache reports a scaler that was re-created
// between two lists as an update.
func needsPast() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, wasScaler := e.ObjectOld.(*autoscalingv1beta1.VerticalScaler)
			scaler, isScaler := e.ObjectNew.(*autoscalingv1beta1.VerticalScaler)
			return wasScaler && isScaler && (previous.UID != scaler.UID ||
				previous.Spec.DeploymentName != scaler.Spec.DeploymentName ||
				previous.Spec.Suspend && !scaler.Spec.Suspend)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// Reconcile reads the past of a scaler's target that has not been read yet.
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
	err := b.backfill(ctx, scaler, workload)
	b.setPastProblem(scaler, err)
	if err := b.Trigger(ctx, scaler); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case isRefused(err):
		log.FromContext(ctx).Error(err, "Cannot read past usage; it is tried again in an hour")
		return ctrl.Result{RequeueAfter: backfillPause}, nil
	case err != nil:
		return ctrl.Result{}, err
	case !workload.Backfilled():
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil // The next turn.
	}
	log.FromContext(ctx).Info("Read past usage", "Deployment", scaler.Spec.DeploymentName)
	return ctrl.Result{}, nil
}

// isRefused reports whether an error stays until somebody changes something.
func isRefused(err error) bool {
	explained, ok := errors.AsType[*usage.Error](err)
	return ok && explained.IsPermanent
}

// backfill reads one part of the past after the other, the newest first, until everything has been
// read or the turn is over. Then it adds what has been read to the history, also after an error. So
// a past that takes one turn is published in one write.
func (b *Backfiller) backfill(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, workload *history.WorkloadHistory,
) error {
	turn, size, read := time.Now().Add(backfillTurn), newPartSize(), newPastUsage(workload.HalfLife())
	start := workload.PastLeft(b.length, backfillStep, time.Now())
	left := start
	defer func() {
		if left != start || left.IsEmpty() { // Otherwise, there is nothing to save.
			workload.Backfill(read.histories, left)
		}
	}()
	for !left.IsEmpty() && time.Now().Before(turn) {
		part, after := size.cut(left)
		containers, err := read.add(b.past.History(ctx, scaler.Namespace, podNames(scaler.Spec.DeploymentName), part))
		if explained, ok := errors.AsType[*usage.Error](err); ok && explained.IsTooLarge && size.shrink() {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the past usage of Deployment %s: %w", scaler.Spec.DeploymentName, err)
		}
		left = after
		size.fit(containers)
	}
	return nil
}
