package histories

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxWindow is how far back targets are known.
const maxWindow = 7 * 24 * time.Hour

// sized names a resource of a container.
type sized struct {
	container string
	resource  corev1.ResourceName
}

// told is a target that was told at a time, in seconds since 1970, and held, with others
// between it and those after it, until the next.
type told struct {
	at, amount int64
}

// Tell takes note of a target that is told from now on, in milli-CPU or bytes; 0 stands for
// none, and tells nothing.
func (r *Record) Tell(container string, resource corev1.ResourceName, amount int64, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	of := sized{container, resource}
	targets := r.targets[of]
	if last := len(targets) - 1; amount == 0 || last >= 0 && targets[last].amount == amount {
		return
	}
	targets = extremes(append(targets, told{now.Unix(), amount}))
	for len(targets) > 1 && targets[1].at <= now.Add(-maxWindow).Unix() {
		targets = targets[1:]
	}
	r.targets[of] = targets
	r.changed = true
}

// extremes leaves out the targets that are between two told later, or equal to one, since they
// are the least or the greatest of no time until now; the next one takes their time over. So
// few are left, however often a target goes to and fro.
func extremes(targets []told) []told {
	last := targets[len(targets)-1]
	kept, least, most := []told{last}, last.amount, last.amount
	for _, target := range slices.Backward(targets[:len(targets)-1]) {
		if least <= target.amount && target.amount <= most {
			kept[len(kept)-1].at = target.at
			continue
		}
		least, most = min(least, target.amount), max(most, target.amount)
		kept = append(kept, target)
	}
	slices.Reverse(kept)
	return kept
}

// Steady returns the least and the greatest target of the time from window ago until now. It
// is not ok where targets have not been told for as long.
func (r *Record) Steady(
	container string, resource corev1.ResourceName, window time.Duration, now time.Time,
) (least, most int64, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	targets := r.targets[sized{container, resource}]
	since := now.Add(-window).Unix()
	for i, target := range slices.Backward(targets) {
		if i == len(targets)-1 {
			least, most = target.amount, target.amount
		}
		least, most = min(least, target.amount), max(most, target.amount)
		if target.at <= since {
			return least, most, true
		}
	}
	return least, most, false
}
