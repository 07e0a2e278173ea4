package history

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxWindow is the age up to which targets are kept.
const maxWindow = 7 * 24 * time.Hour

// targetKey identifies a resource of a container.
type targetKey struct {
	container string
	resource  corev1.ResourceName
}

// pastTarget is a target that was recommended in the past.
type pastTarget struct {
	// since is the start of the time that the target covers, in seconds since 1970. The time ends
	// when the next target starts. It can include targets that lie between this target and later
	// ones.
	since int64
	// amount is in milli-CPU or bytes.
	amount int64
}

// RecordTarget records a target that is valid from now on, in milli-CPU or bytes. It ignores 0,
// which stands for no target.
func (h *WorkloadHistory) RecordTarget(container string, resource corev1.ResourceName, amount int64, now time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	key := targetKey{container, resource}
	targets := h.targets[key]
	if last := len(targets) - 1; amount == 0 || last >= 0 && targets[last].amount == amount {
		return
	}
	targets = extremes(append(targets, pastTarget{now.Unix(), amount}))
	for len(targets) > 1 && targets[1].since <= now.Add(-maxWindow).Unix() {
		targets = targets[1:]
	}
	h.targets[key] = targets
	h.changed = true
}

// extremes drops each target that lies within the range of later targets, and lets the next target
// cover its time. A window that contains the dropped target also contains the later ones, so its
// minimum and maximum stay the same. Only few targets remain, even if the target changes often.
func extremes(targets []pastTarget) []pastTarget {
	last := targets[len(targets)-1]
	kept, least, most := []pastTarget{last}, last.amount, last.amount
	for _, target := range slices.Backward(targets[:len(targets)-1]) {
		if least <= target.amount && target.amount <= most {
			kept[len(kept)-1].since = target.since
			continue
		}
		least, most = min(least, target.amount), max(most, target.amount)
		kept = append(kept, target)
	}
	slices.Reverse(kept)
	return kept
}

// TargetRange returns the minimum and the maximum target of the time from now-window until now. It
// returns false if the recorded targets do not cover the whole window.
func (h *WorkloadHistory) TargetRange(
	container string, resource corev1.ResourceName, window time.Duration, now time.Time,
) (least, most int64, ok bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	targets := h.targets[targetKey{container, resource}]
	since := now.Add(-window).Unix()
	for i, target := range slices.Backward(targets) {
		if i == len(targets)-1 {
			least, most = target.amount, target.amount
		}
		least, most = min(least, target.amount), max(most, target.amount)
		if target.since <= since {
			return least, most, true
		}
	}
	return least, most, false
}
