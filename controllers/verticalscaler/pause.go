package verticalscaler

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pause is a time in which something that failed is not repeated.
type pause struct {
	until  time.Time
	length time.Duration
}

// pauseBetween returns the pause that a status describes.
func pauseBetween(since, until metav1.Time) pause {
	return pause{until: until.Time, length: until.Sub(since.Time)}
}

// left returns how long the pause still lasts; 0 if it is over.
func (p pause) left(now time.Time) time.Duration { return max(p.until.Sub(now), 0) }

// counts reports whether the pause makes the next one longer: it did not end longer ago than it
// lasted.
func (p pause) counts(now time.Time) bool { return now.Before(p.until.Add(p.length)) }

// next returns the pause after another failure. It is twice as long as a previous one that counts,
// but not longer than most.
func (p pause) next(now time.Time, first, most time.Duration) pause {
	length := first
	if p.counts(now) {
		length = min(2*p.length, most)
	}
	return pause{until: now.Add(length), length: length}
}
