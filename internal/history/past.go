package history

import (
	"maps"
	"slices"
	"time"

	"example.com/upright/internal/recommender"
)

// Past is a time from before the creation of a scaler whose usage has not been read yet. Both ends
// belong to it. It is read from its end on, because the newest usage matters most.
type Past struct {
	From, To time.Time
}

// IsEmpty reports whether there is nothing to read.
func (p Past) IsEmpty() bool { return p.To.IsZero() || p.To.Before(p.From) }

// AllContainers stands for all containers in Lost: the checkpoint did not show which it had.
const AllContainers = "*"

// relearned is the span of new samples with which a lost history is complete again: the confidence
// in a recommendation grows no further.
const relearned = 24 * time.Hour

// past is what is known of the usage from before the creation of the scaler.
type past struct {
	backfilled bool
	left       *Past // Nil until a part has been read.
	// lost are the containers whose history could not be restored and is not complete again.
	lost map[string]bool
}

// Backfilled reports whether usage from before the creation of the scaler has been added, also for
// the containers whose history was lost.
func (h *WorkloadHistory) Backfilled() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.past.backfilled && len(h.past.lost) == 0
}

// PastLeft returns the past usage that has not been added yet, if length is how far back usage is
// to be added. It ends one step before the first sample, so that no sample counts twice.
func (h *WorkloadHistory) PastLeft(length, step time.Duration, now time.Time) Past {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.past.left != nil {
		return *h.past.left
	}
	end := now.UTC().Truncate(time.Second)
	for name, history := range h.containers {
		if at := history.FirstSample(); h.lacksPast(name) && !at.IsZero() && at.Before(end) {
			end = at
		}
	}
	return Past{From: end.Add(-length), To: end.Add(-step)}
}

// Backfill adds past usage, by container, and stores what is left to add. If the past was added
// before and the history of some containers was lost since, it adds the usage of these. It changes
// nothing if there is nothing to add.
func (h *WorkloadHistory) Backfill(past map[string]*recommender.History, left Past) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.past.backfilled && len(h.past.lost) == 0 {
		return
	}
	for container, before := range past {
		if !h.lacksPast(container) {
			continue
		}
		_ = h.addTo(container, func(history *recommender.History) error {
			history.Merge(before)
			return nil // Merge cannot fail.
		})
	}
	h.past.left, h.changed = &left, true
	if left.IsEmpty() {
		h.past.complete()
	}
}

func (p *past) complete() { *p = past{backfilled: true} }

// lacksPast reports whether past usage is to be added to a container.
func (h *WorkloadHistory) lacksPast(container string) bool {
	return !h.past.backfilled || h.past.lost[container] || h.past.lost[AllContainers]
}

// Lost returns the names of the containers whose history could not be restored and is not complete
// again, sorted. "*" stands for all containers.
func (h *WorkloadHistory) Lost() []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.past.left == nil { // Otherwise, the lost past is being read.
		before := len(h.past.lost)
		maps.DeleteFunc(h.past.lost, func(name string, _ bool) bool { return h.isRelearned(name) })
		h.changed = h.changed || len(h.past.lost) != before
	}
	return slices.Sorted(maps.Keys(h.past.lost))
}

// isRelearned reports whether a container, or any if all are lost, has enough new samples.
func (h *WorkloadHistory) isRelearned(lost string) bool {
	for name, history := range h.containers {
		first := history.FirstSample()
		if (name == lost || lost == AllContainers) && !first.IsZero() && history.LastSample().Sub(first) >= relearned {
			return true
		}
	}
	return false
}

// lose stores that the history of a container could not be restored.
func (h *WorkloadHistory) lose(container string) {
	if h.past.lost == nil {
		h.past.lost = map[string]bool{}
	}
	h.past.lost[container] = true
}
