package histories

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

// Checkpoint returns what a checkpoint of the record holds, and counts it as saved now.
func (r *Record) Checkpoint(now time.Time) autoscalingv1beta1.VerticalScalerCheckpointData {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.changed, r.saved = false, now
	data := autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: r.deployment, Backfilled: r.backfilled}
	for _, name := range slices.Sorted(maps.Keys(r.containers)) {
		data.Containers = append(data.Containers, autoscalingv1beta1.ContainerCheckpoint{
			ContainerName: name, History: r.containers[name].Checkpoint(),
		})
	}
	for of, at := range r.kills {
		data.OOMKills = append(data.OOMKills, autoscalingv1beta1.OOMKill{
			PodUID: of.pod, ContainerName: of.container, FinishedAt: metav1.Unix(at, 0),
		})
	}
	slices.SortFunc(data.OOMKills, func(a, b autoscalingv1beta1.OOMKill) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.ContainerName, b.ContainerName))
	})
	data.Targets = r.toldTargets()
	return data
}

// toldTargets returns the targets in the order of their containers, resources and times.
func (r *Record) toldTargets() []autoscalingv1beta1.ToldTarget {
	var all []autoscalingv1beta1.ToldTarget
	for of, targets := range r.targets {
		for _, target := range targets {
			all = append(all, autoscalingv1beta1.ToldTarget{
				ContainerName: of.container, Resource: autoscalingv1beta1.ControlledResource(of.resource),
				Since: metav1.Unix(target.at, 0), Amount: target.amount,
			})
		}
	}
	// Of those of one second, the last one told holds.
	slices.SortStableFunc(all, func(a, b autoscalingv1beta1.ToldTarget) int {
		return cmp.Or(cmp.Compare(a.ContainerName, b.ContainerName), cmp.Compare(a.Resource, b.Resource), a.Since.Compare(b.Since.Time))
	})
	return all
}

// Unsave says that the checkpoint taken last could not be written: another is due at once.
func (r *Record) Unsave() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.changed, r.saved = true, time.Time{}
}

// unsaved reports whether the record has changed since it was saved, and was not saved since
// the given time.
func (r *Record) unsaved(since time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.changed && !r.saved.After(since)
}

// restore returns the record that a checkpoint was taken of, without what is damaged, which
// the error names, or nil where it cannot be told whose it is.
func restore(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) (*Record, error) {
	key := types.NamespacedName{Namespace: checkpoint.Namespace, Name: checkpoint.Name}
	owner := metav1.GetControllerOfNoCopy(checkpoint)
	if owner == nil {
		return nil, fmt.Errorf("VerticalScalerCheckpoint %s has no controller among its owners", key)
	}
	record := newRecord(key, owner.UID, checkpoint.Data.DeploymentName, now)
	record.backfilled = checkpoint.Data.Backfilled
	var damaged []error
	for _, container := range checkpoint.Data.Containers {
		history, err := recommender.Restore(container.History)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("restore container %q of VerticalScalerCheckpoint %s: %w", container.ContainerName, key, err))
			continue
		}
		record.containers[container.ContainerName] = history
		if last := history.LastSample(); last.After(record.restored) {
			record.restored = last
		}
		record.halfLife = history.HalfLife()
	}
	for _, target := range checkpoint.Data.Targets {
		of := sized{target.ContainerName, corev1.ResourceName(target.Resource)}
		record.targets[of] = append(record.targets[of], told{target.Since.Unix(), target.Amount})
	}
	for _, kill := range checkpoint.Data.OOMKills {
		record.kills[killed{kill.PodUID, kill.ContainerName}] = kill.FinishedAt.Unix()
	}
	return record, errors.Join(damaged...)
}
