package recommendation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/ssa"
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

// restore reads all checkpoints, once. Nothing may be learned before, because a checkpoint does
// not replace a history that exists.
func (c *Checkpointer) restore(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.restored {
		return nil
	}
	namespaces := c.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := c.restoreNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	c.restored = true
	return nil
}

func (c *Checkpointer) restoreNamespace(ctx context.Context, namespace string) error {
	var page autoscalingv1beta1.VerticalScalerCheckpointList
	for {
		if err := c.client.List(ctx, &page, client.InNamespace(namespace),
			client.Limit(checkpointPage), client.Continue(page.Continue)); err != nil {
			return fmt.Errorf("list the VerticalScalerCheckpoints: %w", err)
		}
		for i := range page.Items {
			if err := c.histories.Restore(&page.Items[i], time.Now()); err != nil {
				log.FromContext(ctx).Error(err, "A checkpoint is damaged; the damaged part is learned again")
			}
		}
		if page.Continue == "" {
			return nil
		}
	}
}

// save writes the histories that have changed and were last saved before the given time.
func (c *Checkpointer) save(ctx context.Context, since time.Time) {
	var writers errgroup.Group
	writers.SetLimit(checkpointWriters)
	for _, workload := range c.histories.Unsaved(since) {
		writers.Go(func() error {
			if err := c.write(ctx, workload); err != nil {
				workload.MarkUnsaved()
				c.metrics.checkpoints.WithLabelValues(checkpointFailed).Inc()
				log.FromContext(ctx).Error(err, "Cannot write a checkpoint; it is tried again")
				return nil
			}
			c.metrics.checkpoints.WithLabelValues(checkpointOK).Inc()
			return nil
		})
	}
	_ = writers.Wait() // No writer returns an error.
}

// write writes the checkpoint of a history. The garbage collector deletes it with its scaler.
func (c *Checkpointer) write(ctx context.Context, workload *history.WorkloadHistory) error {
	scaler, uid := workload.Scaler()
	metadata := metav1ac.ObjectMeta().
		WithNamespace(scaler.Namespace).
		WithName(scaler.Name).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(autoscalingv1beta1.GroupVersion.String()).
			WithKind("VerticalScaler").
			WithName(scaler.Name).
			WithUID(uid).
			WithController(true))
	return ssa.ApplyData(ctx, c.client, c.fieldOwner, &autoscalingv1beta1.VerticalScalerCheckpoint{},
		metadata, workload.Checkpoint(time.Now()))
}
