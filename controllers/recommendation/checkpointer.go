package recommendation

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/upright/internal/history"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalercheckpoints,verbs=list;create;patch

const (
	// checkpointPage is the number of checkpoints in one list request.
	checkpointPage = 500
	// checkpointWriters is the number of checkpoints that are written at a time.
	checkpointWriters = 8
	// checksPerInterval is how often in an interval the checkpointer looks for due checkpoints.
	checksPerInterval = 20
	// saveTimeout bounds the last writes when the manager stops.
	saveTimeout = 20 * time.Second
)

// Checkpointer restores the histories of a previous manager and saves those of this one.
type Checkpointer struct {
	// client has no cache. The previous manager's last writes must be visible, and checkpoints,
	// which are read once, must not take memory.
	client     client.Client
	namespaces []string
	fieldOwner client.FieldOwner
	histories  *history.Store
	interval   time.Duration
	metrics    *metrics

	mutex    sync.Mutex
	restored bool
	// leaderSince is later than that of all restored checkpoints. It is set with restored.
	leaderSince metav1.MicroTime
}

// NeedLeaderElection returns true: only the leader writes checkpoints.
func (*Checkpointer) NeedLeaderElection() bool { return true }

// Start writes each checkpoint when the previous one is an interval old, and all of them when
// the context ends.
func (c *Checkpointer) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("checkpoints"))
	wait.UntilWithContext(ctx, func(ctx context.Context) { c.save(ctx, time.Now().Add(-c.interval)) }, c.interval/checksPerInterval)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c.save(last, time.Now())
	return nil
}

// save writes the histories that have changed and were last saved before the given time.
func (c *Checkpointer) save(ctx context.Context, since time.Time) {
	var writers errgroup.Group
	writers.SetLimit(checkpointWriters)
	for _, workload := range c.histories.Unsaved(since) {
		writers.Go(func() error {
			c.metrics.checkpoints.WithLabelValues(c.saveOne(ctx, workload)).Inc()
			return nil
		})
	}
	_ = writers.Wait() // No writer returns an error.
}

// saveOne writes the checkpoint of a history and returns the result for the metric.
func (c *Checkpointer) saveOne(ctx context.Context, workload *history.WorkloadHistory) string {
	key, _ := workload.Scaler()
	err := c.write(ctx, workload)
	switch {
	case errors.Is(err, errSuperseded):
		workload.Supersede()
		log.FromContext(ctx).Info("A later leader has written the checkpoint; this one does not write it any more", "VerticalScaler", key)
		return checkpointSuperseded
	case err != nil:
		workload.MarkUnsaved()
		log.FromContext(ctx).Error(err, "Cannot write a checkpoint; it is tried again")
		return checkpointFailed
	default:
		return checkpointOK
	}
}
