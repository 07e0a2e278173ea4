package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// Checkpoint returns the data of a checkpoint. From then on, the history counts as saved at now. If
// the data cannot be written, call MarkUnsaved.
func (h *WorkloadHistory) Checkpoint(now time.Time) autoscalingv1beta1.VerticalScalerCheckpointData {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.changed, h.saved = false, now
	data := autoscalingv1beta1.VerticalScalerCheckpointData{
		DeploymentName: h.deployment, Backfilled: h.past.backfilled, LostContainers: slices.Sorted(maps.Keys(h.past.lost)),
	}
	if left := h.past.left; left != nil {
		data.BackfillLeft = &autoscalingv1beta1.TimeRange{From: metav1.NewTime(left.From), To: metav1.NewTime(left.To)}
	}
	for _, name := range slices.Sorted(maps.Keys(h.containers)) {
		data.Containers = append(data.Containers, autoscalingv1beta1.ContainerCheckpoint{
			ContainerName: name, History: h.containers[name].Checkpoint(),
		})
	}
	data.OOMKills = h.oomKills()
	data.Targets = h.pastTargets()
	return data
}

// pastTargets returns the targets sorted by container, resource and time.
func (h *WorkloadHistory) pastTargets() []autoscalingv1beta1.PastTarget {
	var all []autoscalingv1beta1.PastTarget
	for key, targets := range h.targets {
		for _, target := range targets {
			all = append(all, autoscalingv1beta1.PastTarget{
				ContainerName: key.container, Resource: autoscalingv1beta1.ControlledResource(key.resource),
				Since: metav1.Unix(target.since, 0), Amount: target.amount,
			})
		}
	}
	// The sort is stable because the order matters for targets of the same second: the last one is valid.
	slices.SortStableFunc(all, func(a, b autoscalingv1beta1.PastTarget) int {
		return cmp.Or(cmp.Compare(a.ContainerName, b.ContainerName), cmp.Compare(a.Resource, b.Resource), a.Since.Compare(b.Since.Time))
	})
	return all
}

// MarkUnsaved reports that the last checkpoint was not written. The next one is due immediately.
func (h *WorkloadHistory) MarkUnsaved() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.changed, h.saved = true, time.Time{}
}

// unsaved reports whether the history has changed after its last checkpoint, and that checkpoint
// is not newer than since and not of a later leader.
func (h *WorkloadHistory) unsaved(since time.Time) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.changed && !h.saved.After(since) && !h.isSuperseded
}

// restore returns the history in a checkpoint. It skips damaged container histories, which count as
// lost, and returns an error that names them. It returns nil if the checkpoint has no controller,
// because the UID of the scaler is missing then.
func restore(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) (*WorkloadHistory, error) {
	h, err := emptyFor(checkpoint, now)
	if err != nil {
		return nil, err
	}
	data := &checkpoint.Data
	h.past.backfilled = data.Backfilled
	if left := data.BackfillLeft; left != nil {
		h.past.left = &Past{From: left.From.UTC(), To: left.To.UTC()}
	}
	var damaged []error
	for _, container := range data.Containers {
		history, err := recommender.Restore(container.History)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("restore container %q of VerticalScalerCheckpoint %s: %w", container.ContainerName, h.key, err))
			h.past.left = nil // All of the past of this container is to be read again.
			h.lose(container.ContainerName)
			h.stored.IsUnreadable, h.changed = true, true
			continue
		}
		h.containers[container.ContainerName] = history
		last := history.LastSample()
		if last.After(now) {
			last = now // A clock was wrong. That must not exclude the samples until then.
		}
		if last.After(h.restored) {
			h.restored = last
		}
		h.halfLife = history.HalfLife()
	}
	for _, target := range data.Targets {
		k := targetKey{target.ContainerName, corev1.ResourceName(target.Resource)}
		h.targets[k] = append(h.targets[k], pastTarget{target.Since.Unix(), target.Amount})
	}
	for _, kill := range data.OOMKills {
		h.restoreOOMKill(&kill)
	}
	for _, container := range data.LostContainers {
		h.lose(container)
	}
	return h, errors.Join(damaged...)
}

// emptyFor returns an empty history of the scaler that a checkpoint belongs to.
func emptyFor(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) (*WorkloadHistory, error) {
	key := types.NamespacedName{Namespace: checkpoint.Namespace, Name: checkpoint.Name}
	owner := metav1.GetControllerOfNoCopy(checkpoint)
	if owner == nil {
		return nil, fmt.Errorf("VerticalScalerCheckpoint %s has no controller among its owners", key)
	}
	h := newWorkloadHistory(key, owner.UID, checkpoint.Data.DeploymentName, now)
	h.stored.Version = checkpoint.ResourceVersion
	return h, nil
}

// IsDamaged reports whether the history of a container in a checkpoint cannot be restored.
func IsDamaged(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint) bool {
	return slices.ContainsFunc(checkpoint.Data.Containers, func(container autoscalingv1beta1.ContainerCheckpoint) bool {
		_, err := recommender.Restore(container.History)
		return err != nil
	})
}
