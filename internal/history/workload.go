package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/recommender"
)

const (
	// maxContainers limits the number of containers in a WorkloadHistory. Without the limit, a
	// Deployment that renames its container in each rollout would add containers forever. The
	// containers with the newest samples are kept.
	maxContainers = 64
	// retention is the age at which a container without new samples is dropped. It equals the
	// age of the oldest memory peaks in a recommender.History.
	retention = 28 * 24 * time.Hour
)

// WorkloadHistory is the usage history of one scaler's target.
type WorkloadHistory struct {
	key        types.NamespacedName
	scaler     types.UID
	deployment string

	mutex      sync.Mutex
	containers map[string]*recommender.History
	pods       map[types.UID]*podMemory   // The target's pods at the last observation, and those with an OOM kill.
	targets    map[targetKey][]pastTarget // In the order in which they were recorded.
	past       past
	halfLife   time.Duration
	restored   time.Time // The newest restored sample. Zero if nothing was restored.

	observations int64 // How often the pods were observed.

	changed      bool      // Whether the history has changed after its last checkpoint.
	saved        time.Time // The time of the last checkpoint.
	stored       Stored
	isSuperseded bool // Whether the stored checkpoint is of a later leader.
}

func newWorkloadHistory(key types.NamespacedName, scaler types.UID, deployment string, now time.Time) *WorkloadHistory {
	return &WorkloadHistory{
		key: key, scaler: scaler, deployment: deployment, halfLife: recommender.DefaultHalfLife,
		containers: map[string]*recommender.History{}, pods: map[types.UID]*podMemory{},
		targets: map[targetKey][]pastTarget{}, saved: now,
	}
}

// Scaler returns the key and the UID of the scaler.
func (h *WorkloadHistory) Scaler() (types.NamespacedName, types.UID) { return h.key, h.scaler }

// HalfLife returns the half-life of the samples. Histories for Backfill should have the same one.
func (h *WorkloadHistory) HalfLife() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.halfLife
}

// AddUsage adds a sample of a container's usage, in cores and bytes. It starts a new history for a
// container that had no samples for 28 days. It rejects an impossible sample with
// recommender.ErrInvalidSample and changes nothing.
func (h *WorkloadHistory) AddUsage(container string, at time.Time, cores float64, bytes int64) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if bytes < 0 {
		return fmt.Errorf("%w: %d bytes of memory", recommender.ErrInvalidSample, bytes)
	}
	return h.addTo(container, func(history *recommender.History) error {
		used := history
		if at.Sub(history.LastSample()) > retention {
			used = recommender.New(h.halfLife)
		}
		if err := used.AddCPU(at, cores); err != nil {
			return err
		}
		if used != history {
			*history = *used
		}
		return history.AddMemory(at, bytes)
	})
}

// Recommend returns the recommendation for a container. It is zero if the container has no history.
func (h *WorkloadHistory) Recommend(container string, policy recommender.Policy) recommender.Recommendation {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if history := h.containers[container]; history != nil {
		return history.Recommend(policy)
	}
	return recommender.Recommendation{}
}

// Restored returns the time of the newest restored sample, or zero if nothing was restored. The
// usage source can return samples up to this time again.
func (h *WorkloadHistory) Restored() time.Time { return h.restored }

// addTo calls add with the history of a container. It starts a new history for a new container,
// and keeps it only if add succeeds.
func (h *WorkloadHistory) addTo(container string, add func(*recommender.History) error) error {
	history, exists := h.containers[container]
	if !exists {
		history = recommender.New(h.halfLife)
	}
	if err := add(history); err != nil {
		return err
	}
	h.changed = true
	if !exists {
		h.containers[container] = history
		h.prune()
	}
	return nil
}

// prune drops the containers without recent samples. If there are still too many containers, it
// drops those with the oldest samples.
func (h *WorkloadHistory) prune() {
	lastSample := func(name string) time.Time { return h.containers[name].LastSample() }
	newestFirst := slices.SortedFunc(maps.Keys(h.containers), func(a, b string) int {
		return cmp.Or(lastSample(b).Compare(lastSample(a)), cmp.Compare(a, b))
	})
	newest := lastSample(newestFirst[0])
	for i, name := range newestFirst {
		if i >= maxContainers || newest.Sub(lastSample(name)) > retention {
			delete(h.containers, name)
			maps.DeleteFunc(h.targets, func(key targetKey, _ []pastTarget) bool { return key.container == name })
		}
	}
}

// setHalfLife changes the half-life of all samples, present and future.
func (h *WorkloadHistory) setHalfLife(halfLife time.Duration) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if halfLife == h.halfLife {
		return
	}
	// Without containers there is nothing to save.
	h.halfLife, h.changed = halfLife, h.changed || len(h.containers) > 0
	for history := range maps.Values(h.containers) {
		history.SetHalfLife(halfLife)
	}
}
