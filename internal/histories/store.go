package histories

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// Store holds the records of all scalers.
type Store struct {
	mutex   sync.Mutex
	records map[types.NamespacedName]*Record
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{records: map[types.NamespacedName]*Record{}}
}

// Record returns the record of a scaler. It is a new one, as of now, where the scaler is new,
// was created anew under its name, or names another Deployment than before: what is known of
// one workload says nothing of another.
func (s *Store) Record(scaler *autoscalingv1beta1.VerticalScaler, now time.Time) *Record {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := types.NamespacedName{Namespace: scaler.Namespace, Name: scaler.Name}
	record := s.records[key]
	if record == nil || record.scaler != scaler.UID || record.deployment != scaler.Spec.DeploymentName {
		record = newRecord(key, scaler.UID, scaler.Spec.DeploymentName, now)
		s.records[key] = record
	}
	record.setHalfLife(halfLifeOf(scaler))
	return record
}

// halfLifeOf returns the half-life that a scaler asks for.
func halfLifeOf(scaler *autoscalingv1beta1.VerticalScaler) time.Duration {
	if policy := scaler.Spec.Recommendation; policy != nil && policy.HalfLife != nil {
		return policy.HalfLife.Duration
	}
	return recommender.DefaultHalfLife
}

// Restore adds the record that a checkpoint was taken of, as saved now, unless the scaler has
// one already. What is damaged in the checkpoint is left out, and the error says what.
func (s *Store) Restore(checkpoint *autoscalingv1beta1.VerticalScalerCheckpoint, now time.Time) error {
	record, err := restore(checkpoint, now)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if record != nil && s.records[record.key] == nil {
		s.records[record.key] = record
	}
	return err
}

// Scalers returns the UIDs of the scalers that have a record.
func (s *Store) Scalers() map[types.UID]bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	known := make(map[types.UID]bool, len(s.records))
	for record := range maps.Values(s.records) {
		known[record.scaler] = true
	}
	return known
}

// Forget drops the records of those scalers.
func (s *Store) Forget(scalers map[types.UID]bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	maps.DeleteFunc(s.records, func(_ types.NamespacedName, record *Record) bool { return scalers[record.scaler] })
}

// Unsaved returns the records that have changed since they were saved, and were not saved
// since the given time.
func (s *Store) Unsaved(since time.Time) []*Record {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var unsaved []*Record
	for record := range maps.Values(s.records) {
		if record.unsaved(since) {
			unsaved = append(unsaved, record)
		}
	}
	return unsaved
}
