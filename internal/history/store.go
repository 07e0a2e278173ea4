package history

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// Store holds the histories of all scalers.
type Store struct {
	mutex     sync.Mutex
	histories map[types.NamespacedName]*WorkloadHistory
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{histories: map[types.NamespacedName]*WorkloadHistory{}}
}

// History returns the history of a scaler. It starts a new one if the scaler is new, was
// re-created, or has another target than before, because the usage of one workload does not
// apply to another. What is known of the pods of the same Deployment stays. The first checkpoint of a new history is due one interval after now.
func (s *Store) History(scaler *autoscalingv1beta1.VerticalScaler, now time.Time) *WorkloadHistory {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := types.NamespacedName{Namespace: scaler.Namespace, Name: scaler.Name}
	workload := s.histories[key]
	if workload != nil && workload.deployment == "" && workload.scaler == scaler.UID {
		workload.deployment = scaler.Spec.DeploymentName // Its checkpoint was unreadable.
	}
	if workload == nil || workload.scaler != scaler.UID || workload.deployment != scaler.Spec.DeploymentName {
		previous := workload
		workload = newWorkloadHistory(key, scaler.UID, scaler.Spec.DeploymentName, now)
		if previous != nil && previous.deployment == workload.deployment {
			workload.inherit(previous)
		}
		s.histories[key] = workload
	}
	workload.setHalfLife(halfLifeOf(scaler))
	return workload
}

// halfLifeOf returns the half-life in a scaler's spec, or the default.
func halfLifeOf(scaler *autoscalingv1beta1.VerticalScaler) time.Duration {
	if policy := scaler.Spec.Recommendation; policy != nil && policy.HalfLife != nil {
		return policy.HalfLife.Duration
	}
	return recommender.DefaultHalfLife
}

// Restore adds the history in a checkpoint, unless the scaler already has a history. The restored
// history counts as saved at now. Restore skips damaged parts of the checkpoint and returns an
// error that names them.
func (s *Store) Restore(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) error {
	workload, err := restore(checkpoint, now)
	s.add(workload)
	return err
}

// RestoreUnreadable adds an empty history for a checkpoint whose data cannot be read at all, unless
// the scaler already has a history.
func (s *Store) RestoreUnreadable(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) error {
	workload, err := emptyFor(checkpoint, now)
	if err != nil {
		return err
	}
	workload.lose(AllContainers)
	workload.stored.IsUnreadable, workload.changed = true, true
	s.add(workload)
	return nil
}

func (s *Store) add(workload *WorkloadHistory) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if workload != nil && s.histories[workload.key] == nil {
		s.histories[workload.key] = workload
	}
}

// Scalers returns the UIDs of the scalers that have a history.
func (s *Store) Scalers() map[types.UID]bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	scalers := make(map[types.UID]bool, len(s.histories))
	for workload := range maps.Values(s.histories) {
		scalers[workload.scaler] = true
	}
	return scalers
}

// Forget drops the histories of the given scalers.
func (s *Store) Forget(scalers map[types.UID]bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	maps.DeleteFunc(s.histories, func(_ types.NamespacedName, workload *WorkloadHistory) bool {
		return scalers[workload.scaler]
	})
}

// Unsaved returns the histories that have changed after their last checkpoint, if that checkpoint
// is not newer than since.
func (s *Store) Unsaved(since time.Time) []*WorkloadHistory {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var unsaved []*WorkloadHistory
	for workload := range maps.Values(s.histories) {
		if workload.unsaved(since) {
			unsaved = append(unsaved, workload)
		}
	}
	return unsaved
}
