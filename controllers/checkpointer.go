package controllers

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
	"example.com/upright/internal/histories"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalercheckpoints,verbs=list;create;patch

const (
	// checkpointPage is how many checkpoints are read at a time.
	checkpointPage = 500
	// checkpointWriters is how many checkpoints are written at a time.
	checkpointWriters = 8
	// lookouts is how often in an interval the checkpoints are looked for that are due.
	lookouts = 20
	// saveTimeout bounds the writing of the last checkpoints when the manager stops.
	saveTimeout = 20 * time.Second
)

// Checkpointer reads what was learned by a manager before this one, and saves what this one learns.
type Checkpointer struct {
	// Client has no cache: what the manager before this one wrote a moment ago is read too, and
	// checkpoints, which are read once, take no memory.
	client.Client
	namespaces []string
	fieldOwner client.FieldOwner
	histories  *histories.Store
	interval   time.Duration
	metrics    *usageMetrics

	mutex    sync.Mutex
	restored bool
	saved    chan struct{} // Closed when the last checkpoints are written.
}

// NeedLeaderElection says that only the leader saves what it has learned.
func (*Checkpointer) NeedLeaderElection() bool { return true }

// Start writes each checkpoint when the last one is an interval old, and all of them in the end.
func (c *Checkpointer) Start(ctx context.Context) error {
	defer close(c.saved)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("checkpoints"))
	wait.UntilWithContext(ctx, func(ctx context.Context) { c.save(ctx, time.Now().Add(-c.interval)) }, c.interval/lookouts)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c.save(last, time.Now())
	return nil
}

// restore reads all checkpoints, once. Nothing may be learned before: it would be taken for
// all that there is.
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
		if err := c.List(ctx, &page, client.InNamespace(namespace),
			client.Limit(checkpointPage), client.Continue(page.Continue)); err != nil {
			return fmt.Errorf("list the VerticalScalerCheckpoints: %w", err)
		}
		for i := range page.Items {
			if err := c.histories.Restore(&page.Items[i], time.Now()); err != nil {
				log.FromContext(ctx).Error(err, "A part of a checkpoint is damaged; what it held is learned anew")
			}
		}
		if page.Continue == "" {
			return nil
		}
	}
}

// save writes the checkpoints of what has changed and was not saved since.
func (c *Checkpointer) save(ctx context.Context, since time.Time) {
	var writers errgroup.Group
	writers.SetLimit(checkpointWriters)
	for _, record := range c.histories.Unsaved(since) {
		writers.Go(func() error {
			if err := c.write(ctx, record); err != nil {
				record.Unsave()
				c.metrics.checkpoints.WithLabelValues("failed").Inc()
				log.FromContext(ctx).Error(err, "Saving what was learned failed; it is tried again")
				return nil
			}
			c.metrics.checkpoints.WithLabelValues("ok").Inc()
			return nil
		})
	}
	_ = writers.Wait() // No writer returns an error.
}

// checkpointApplyConfiguration is the apply configuration of a VerticalScalerCheckpoint.
type checkpointApplyConfiguration struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata"`
	Data                                   autoscalingv1beta1.VerticalScalerCheckpointData `json:"data"`
}

// IsApplyConfiguration marks the type as an apply configuration.
func (*checkpointApplyConfiguration) IsApplyConfiguration() {}

// write writes a record's checkpoint, which is deleted with its scaler.
func (c *Checkpointer) write(ctx context.Context, record *histories.Record) error {
	scaler, uid := record.Scaler()
	configuration := &checkpointApplyConfiguration{
		TypeMetaApplyConfiguration: *metav1ac.TypeMeta().
			WithAPIVersion(autoscalingv1beta1.GroupVersion.String()).
			WithKind("VerticalScalerCheckpoint"),
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().
			WithNamespace(scaler.Namespace).
			WithName(scaler.Name).
			WithOwnerReferences(metav1ac.OwnerReference().
				WithAPIVersion(autoscalingv1beta1.GroupVersion.String()).
				WithKind("VerticalScaler").
				WithName(scaler.Name).
				WithUID(uid).
				WithController(true)),
		Data: record.Checkpoint(time.Now()),
	}
	if err := c.Apply(ctx, configuration, c.fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply VerticalScalerCheckpoint %s: %w", scaler, err)
	}
	return nil
}
