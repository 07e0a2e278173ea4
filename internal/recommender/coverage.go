package recommender

import "math/bits"

// A history starts again with its confidence after a gap in which its samples lost so much weight
// that a single new peak of memory decides the target. At the default half-life that is four days.
const (
	gapHalfLives = 4
	// minGap is the shortest gap that counts, in seconds. A workload that pauses at night keeps
	// its confidence, even at a short half-life.
	minGap = windowLength
)

// coverage has a bit for each slot of the past four weeks: bit n is set if there is a CPU sample
// in the slot that is n slots older than the newest one.
type coverage [(slotCount + 63) / 64]uint64

// add sets the bit of a slot that is a number of slots older than the newest one.
func (c *coverage) add(age int32) {
	if age < slotCount {
		c[age/64] |= 1 << (age % 64)
	}
}

// has reports whether there is a sample in a slot.
func (c *coverage) has(age int32) bool { return c[age/64]&(1<<(age%64)) != 0 }

// advance moves all bits to higher ages. It drops those older than four weeks.
func (c *coverage) advance(slots int32) {
	if slots == 0 {
		return
	}
	before := *c
	*c = coverage{}
	for n, word := range before {
		for ; word != 0; word &= word - 1 {
			if age := int64(n*64+bits.TrailingZeros64(word)) + int64(slots); age < slotCount {
				c.add(int32(age))
			}
		}
	}
}

// oldest returns the age of the oldest slot with a sample that is not behind a gap of more than a
// number of slots. It is false if all slots of the past four weeks may be without such a gap.
func (c *coverage) oldest(gap int64) (age int32, isBehindGap bool) {
	for next := range int32(slotCount) {
		if c.has(next) {
			age = next
		}
		if int64(next-age) > gap {
			return age, true
		}
	}
	return age, false
}
