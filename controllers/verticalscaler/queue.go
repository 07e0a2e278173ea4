package verticalscaler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// queueInterval is the time after which a scaler in the queue checks its place again. Each place
// adds queueStep, so that a long queue takes little time.
const (
	queueInterval = 10 * time.Second
	queueStep     = 100 * time.Millisecond
)

// rolloutQueue limits how many of the manager's rollouts are in progress at the same time. It
// follows from the statuses of the scalers, so a restart of the manager changes only the order of
// those that wait.
type rolloutQueue struct {
	limit int
	cache client.Reader

	mutex      sync.Mutex
	isRestored bool
	active     map[types.NamespacedName]time.Time // When the rollout was requested, by scaler.
	waiting    map[types.NamespacedName]*ticket   // By scaler.
}

// ticket is a scaler's place in the queue.
type ticket struct {
	since time.Time
	// place is the published place, counted from 1. It is at most as up to date as shownAt, so that
	// an event of the scaler does not cause a write of the status.
	place   int
	shownAt time.Time
}

func newRolloutQueue(cache client.Reader, limit int) *rolloutQueue {
	return &rolloutQueue{
		limit: limit, cache: cache,
		active: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]*ticket{},
	}
}

// enter returns 0 if a scaler may request a rollout, which then counts as active. Otherwise it
// returns the scaler's place in the queue, and when to try again.
func (q *rolloutQueue) enter(ctx context.Context, scaler types.NamespacedName, now time.Time) (place int, requeueAfter time.Duration, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if err := q.restore(ctx, now); err != nil {
		return 0, 0, err
	}
	own := q.waiting[scaler]
	if own == nil {
		own = &ticket{since: now}
	}
	if _, isActive := q.active[scaler]; isActive || q.placeOf(scaler, own) <= q.limit-q.countActive(now) {
		delete(q.waiting, scaler)
		q.active[scaler] = now
		return 0, 0, nil
	}
	q.waiting[scaler] = own
	if own.place == 0 || now.Sub(own.shownAt) >= queueInterval {
		own.place, own.shownAt = q.placeOf(scaler, own), now
	}
	return own.place, queueInterval + time.Duration(own.place)*queueStep, nil
}

// placeOf returns a scaler's place among those that wait.
func (q *rolloutQueue) placeOf(scaler types.NamespacedName, own *ticket) int {
	place := 1
	for name, other := range q.waiting {
		if name != scaler && (other.since.Before(own.since) || other.since.Equal(own.since) && name.String() < scaler.String()) {
			place++
		}
	}
	return place
}

// countActive counts the rollouts in progress. One that takes too long does not block the others.
func (q *rolloutQueue) countActive(now time.Time) int {
	for scaler, since := range q.active {
		if now.Sub(since) >= sizing.MaxRolloutTime {
			delete(q.active, scaler)
		}
	}
	return len(q.active)
}

// update counts the rollout of a scaler that was reconciled, or drops it.
func (q *rolloutQueue) update(s *scope) {
	if s.hasFailed() {
		return // Its rollout may be in progress.
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	scaler := client.ObjectKeyFromObject(s.scaler)
	if s.deployment != nil && sizing.IsRolloutActive(s.status.Rollout, s.now) {
		q.active[scaler] = s.status.Rollout.RequestedAt.Time
	} else {
		delete(q.active, scaler)
	}
	if s.result.byReason[autoscalingv1beta1.ReasonRolloutQueued] == 0 {
		delete(q.waiting, scaler)
	}
}

// forget drops a scaler that no longer exists.
func (q *rolloutQueue) forget(scaler types.NamespacedName) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	delete(q.active, scaler)
	delete(q.waiting, scaler)
}

// restore counts the rollouts that a previous manager started. It reads the scalers once.
func (q *rolloutQueue) restore(ctx context.Context, now time.Time) error {
	if q.isRestored {
		return nil
	}
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := q.cache.List(ctx, &scalers, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the VerticalScalers: %w", err)
	}
	for i := range scalers.Items {
		scaler := &scalers.Items[i]
		if scaler.DeletionTimestamp.IsZero() && !scaler.Spec.Suspend && sizing.IsRolloutActive(scaler.Status.Rollout, now) {
			q.active[client.ObjectKeyFromObject(scaler)] = scaler.Status.Rollout.RequestedAt.Time
		}
	}
	q.isRestored = true
	return nil
}
