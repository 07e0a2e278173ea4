package recommendation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
)

// errSuperseded means that a later leader has written the checkpoint.
var errSuperseded = errors.New("a later leader has written the checkpoint")

// write writes the checkpoint of a history, if the stored one is the one that it replaces. If it
// is another one, write looks at it once and tries again, unless it is of a later leader.
func (c *Checkpointer) write(ctx context.Context, workload *history.WorkloadHistory) error {
	data, since := workload.Checkpoint(time.Now()), c.since()
	data.LeaderSince = &since
	err := c.replace(ctx, workload, data)
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	if err := c.look(ctx, workload); err != nil {
		return err
	}
	return c.replace(ctx, workload, data)
}

// replace creates the checkpoint, or replaces the one of the known resource version. It keeps data
// that could not be read.
func (c *Checkpointer) replace(
	ctx context.Context, workload *history.WorkloadHistory, data autoscalingv1beta1.VerticalScalerCheckpointData,
) error {
	scaler, uid := workload.Scaler()
	stored := workload.Stored()
	checkpoint := &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name, OwnerReferences: ownerReferences(scaler, uid)},
		Data:       data,
	}
	if stored.Version == "" {
		if err := c.client.Create(ctx, checkpoint, c.fieldOwner); err != nil {
			return fmt.Errorf("create VerticalScalerCheckpoint %s: %w", scaler, err)
		}
	} else {
		patch, err := replacement(checkpoint, stored)
		if err != nil {
			return err
		}
		if err := c.client.Patch(ctx, checkpoint, patch, c.fieldOwner); err != nil {
			return fmt.Errorf("patch VerticalScalerCheckpoint %s: %w", scaler, err)
		}
	}
	workload.SetStored(history.Stored{Version: checkpoint.ResourceVersion})
	return nil
}

// ownerReferences make the garbage collector delete a checkpoint with its scaler.
func ownerReferences(scaler types.NamespacedName, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: autoscalingv1beta1.GroupVersion.String(), Kind: "VerticalScaler",
		Name: scaler.Name, UID: uid, Controller: new(true),
	}}
}

// operation is an operation of a JSON patch.
type operation struct {
	Operation string `json:"op"`
	From      string `json:"from,omitempty"`
	Path      string `json:"path"`
	Value     any    `json:"value,omitempty"`
}

// replacement returns the patch that replaces a stored checkpoint. It is a JSON patch, because this
// can move unreadable data to another field, unseen, in the same write.
func replacement(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, stored history.Stored) (client.Patch, error) {
	operations := []operation{
		{Operation: "replace", Path: "/metadata/resourceVersion", Value: stored.Version},
		{Operation: "add", Path: "/metadata/ownerReferences", Value: checkpoint.OwnerReferences},
	}
	if stored.IsUnreadable {
		operations = append(operations, operation{Operation: "copy", From: "/data", Path: "/unreadable"})
	}
	operations = append(operations, operation{Operation: "replace", Path: "/data", Value: checkpoint.Data})
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode the checkpoint: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, patch), nil
}

// look reads the version of the stored checkpoint. It returns errSuperseded if the checkpoint is of
// a later leader.
func (c *Checkpointer) look(ctx context.Context, workload *history.WorkloadHistory) error {
	scaler, _ := workload.Scaler()
	list := newCheckpointList()
	if err := c.client.List(ctx, list, client.InNamespace(scaler.Namespace),
		client.MatchingFields{metav1.ObjectNameField: scaler.Name}); err != nil {
		return fmt.Errorf("list VerticalScalerCheckpoint %s: %w", scaler, err)
	}
	if len(list.Items) == 0 {
		workload.SetStored(history.Stored{})
		return nil
	}
	if leaderSince(&list.Items[0]).After(c.since().Time) {
		return errSuperseded
	}
	workload.SetStored(history.Stored{Version: list.Items[0].GetResourceVersion(), IsUnreadable: isUnreadable(&list.Items[0])})
	return nil
}

// isUnreadable reports whether a part of a checkpoint cannot be restored.
func isUnreadable(object *unstructured.Unstructured) bool {
	checkpoint, err := decodeCheckpoint(object)
	return err != nil || history.IsDamaged(checkpoint)
}

// since returns when this manager became the leader.
func (c *Checkpointer) since() metav1.MicroTime {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.leaderSince
}
