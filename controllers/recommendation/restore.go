package recommendation

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// restore reads all checkpoints, once. Nothing may be learned before, because a checkpoint does
// not replace a history that exists.
func (c *Checkpointer) restore(ctx context.Context) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.restored {
		return nil
	}
	c.leaderSince = metav1.NowMicro()
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

// restoreNamespace reads the checkpoints of a namespace. The list is unstructured: a typed list
// fails as a whole if one checkpoint cannot be decoded.
func (c *Checkpointer) restoreNamespace(ctx context.Context, namespace string) error {
	page := newCheckpointList()
	for {
		if err := c.client.List(ctx, page, client.InNamespace(namespace),
			client.Limit(checkpointPage), client.Continue(page.GetContinue())); err != nil {
			return fmt.Errorf("list the VerticalScalerCheckpoints: %w", err)
		}
		for i := range page.Items {
			if err := c.restoreOne(&page.Items[i]); err != nil {
				log.FromContext(ctx).Error(err, "A checkpoint is damaged; what is lost is learned again")
			}
		}
		if page.GetContinue() == "" {
			return nil
		}
	}
}

// restoreOne adds the history in a checkpoint.
func (c *Checkpointer) restoreOne(object *unstructured.Unstructured) error {
	// The clock of a previous leader may be ahead.
	if since := leaderSince(object); !since.Before(c.leaderSince.Time) {
		c.leaderSince = metav1.NewMicroTime(since.Add(time.Microsecond))
	}
	checkpoint, err := decodeCheckpoint(object)
	if err != nil {
		return errors.Join(err, c.histories.RestoreUnreadable(checkpoint, time.Now()))
	}
	return c.histories.Restore(checkpoint, time.Now())
}

// decodeCheckpoint returns a checkpoint. With an error, it has the metadata alone.
func decodeCheckpoint(object *unstructured.Unstructured) (*autoscalingv1beta1.VerticalScalerCheckpoint, error) {
	checkpoint := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, checkpoint)
	if err != nil {
		return &autoscalingv1beta1.VerticalScalerCheckpoint{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion(),
				OwnerReferences: object.GetOwnerReferences(),
			}},
			fmt.Errorf("decode VerticalScalerCheckpoint %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return checkpoint, nil
}

// leaderSince returns when the manager that wrote a checkpoint became the leader, or zero. Also a
// checkpoint that cannot be decoded may have it.
func leaderSince(object *unstructured.Unstructured) time.Time {
	text, _, _ := unstructured.NestedString(object.Object, "data", "leaderSince")
	since, err := time.Parse(metav1.RFC3339Micro, text)
	if err != nil {
		return time.Time{}
	}
	return since
}

func newCheckpointList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(autoscalingv1beta1.GroupVersion.WithKind("VerticalScalerCheckpointList"))
	return list
}
