package histories

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
	// maxContainers is how many containers' histories a record keeps, those that were used
	// last: a Deployment that renames its container with each rollout would fill it for good.
	maxContainers = 64
	// retention is how long the history of a container is kept that is not used any more. The
	// memory peaks of a history reach as far back.
	retention = 28 * 24 * time.Hour
)

// Record is what has been learned for one scaler.
type Record struct {
	key        types.NamespacedName
	scaler     types.UID
	deployment string

	mutex      sync.Mutex
	containers map[string]*recommender.History
	kills      map[killed]int64 // Seconds since 1970 of the last kill of each container that counts already.
	targets    map[sized][]told // In the order in which they were told.
	backfilled bool
	halfLife   time.Duration
	restored   time.Time // The newest sample of before this start; zero without one.

	changed bool // Since it was saved.
	saved   time.Time
}

// killed names a container of a pod that was killed.
type killed struct {
	pod       types.UID
	container string
}

// Kill is the end of a container that ran out of memory.
type Kill struct {
	Pod        types.UID
	Container  string
	FinishedAt time.Time
	// Request is the memory that the container requested, in bytes.
	Request int64
}

func newRecord(key types.NamespacedName, scaler types.UID, deployment string, now time.Time) *Record {
	return &Record{
		key: key, scaler: scaler, deployment: deployment, halfLife: recommender.DefaultHalfLife,
		containers: map[string]*recommender.History{}, kills: map[killed]int64{}, targets: map[sized][]told{}, saved: now,
	}
}

// Scaler returns the namespace and name of the scaler, and its UID.
func (r *Record) Scaler() (types.NamespacedName, types.UID) { return r.key, r.scaler }

// HalfLife returns the half-life of what the record holds. A history that is to be added should
// have the same.
func (r *Record) HalfLife() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.halfLife
}

// AddUsage adds a sample of a container's usage, in cores and bytes. A sample that cannot be
// one is a recommender.ErrInvalidSample, and changes nothing.
func (r *Record) AddUsage(container string, at time.Time, cores float64, bytes int64) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if bytes < 0 {
		return fmt.Errorf("%w: %d bytes of memory", recommender.ErrInvalidSample, bytes)
	}
	return r.learn(container, func(history *recommender.History) error {
		if err := history.AddCPU(at, cores); err != nil {
			return err
		}
		return history.AddMemory(at, bytes)
	})
}

// AddKill adds that a container was killed for lack of memory, unless it counts already, and
// reports whether it does now and did not before.
func (r *Record) AddKill(kill Kill) (bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	of, at := killed{kill.Pod, kill.Container}, kill.FinishedAt.Unix()
	if last, isKnown := r.kills[of]; isKnown && at <= last {
		return false, nil
	}
	err := r.learn(kill.Container, func(history *recommender.History) error {
		return history.AddOOMKill(kill.FinishedAt, kill.Request)
	})
	if err != nil {
		return false, err
	}
	r.kills[of] = at
	return true, nil
}

// SkipKill has a kill count for nothing, now and later.
func (r *Record) SkipKill(kill Kill) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	of, at := killed{kill.Pod, kill.Container}, kill.FinishedAt.Unix()
	if last, isKnown := r.kills[of]; !isKnown || at > last {
		r.kills[of], r.changed = at, true
	}
}

// KeepKills drops the kills of pods that are none of those present.
func (r *Record) KeepKills(isPresent func(pod types.UID) bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before := len(r.kills)
	maps.DeleteFunc(r.kills, func(of killed, _ int64) bool { return !isPresent(of.pod) })
	r.changed = r.changed || len(r.kills) != before
}

// Recommend returns what a container should request, which is all zero where nothing is known of it.
func (r *Record) Recommend(container string, policy recommender.Policy) recommender.Recommendation {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if history := r.containers[container]; history != nil {
		return history.Recommend(policy)
	}
	return recommender.Recommendation{}
}

// Backfilled reports whether usage from before the scaler was created has been added.
func (r *Record) Backfilled() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.backfilled
}

// Restored returns the time of the newest sample that a manager before this one added, which
// the source of usage may give once more; the zero time where there is none.
func (r *Record) Restored() time.Time { return r.restored }

// FirstSample returns the time of the oldest sample of any container, or the zero time where
// there is none.
func (r *Record) FirstSample() time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var first time.Time
	for history := range maps.Values(r.containers) {
		if at := history.FirstSample(); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Backfill adds histories from before the scaler was created, by container, once: there is
// no second time.
func (r *Record) Backfill(past map[string]*recommender.History) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.backfilled {
		return
	}
	for container, before := range past {
		_ = r.learn(container, func(history *recommender.History) error {
			history.Merge(before)
			return nil // A history always fits another.
		})
	}
	r.backfilled, r.changed = true, true
}

// learn adds to the history of a container, which is a new one where there was none. What
// cannot be added leaves no trace.
func (r *Record) learn(container string, add func(*recommender.History) error) error {
	history, isKnown := r.containers[container]
	if !isKnown {
		history = recommender.New(r.halfLife)
	}
	if err := add(history); err != nil {
		return err
	}
	r.changed = true
	if !isKnown {
		r.containers[container] = history
		r.prune()
	}
	return nil
}

// prune drops what has been unused for too long, and the longest unused of too many containers.
func (r *Record) prune() {
	used := func(name string) time.Time { return r.containers[name].LastSample() }
	latestFirst := slices.SortedFunc(maps.Keys(r.containers), func(a, b string) int {
		return cmp.Or(used(b).Compare(used(a)), cmp.Compare(a, b))
	})
	newest := used(latestFirst[0])
	for i, name := range latestFirst {
		if i >= maxContainers || newest.Sub(used(name)) > retention {
			delete(r.containers, name)
			maps.DeleteFunc(r.targets, func(of sized, _ []told) bool { return of.container == name })
		}
	}
}

// setHalfLife has samples lose their weight at another pace.
func (r *Record) setHalfLife(halfLife time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if halfLife == r.halfLife {
		return
	}
	// Where nothing is known, there is nothing to save.
	r.halfLife, r.changed = halfLife, r.changed || len(r.containers) > 0
	for history := range maps.Values(r.containers) {
		history.SetHalfLife(halfLife)
	}
}
