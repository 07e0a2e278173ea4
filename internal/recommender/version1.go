package recommender

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// version1 reads a checkpoint of version 1, after its first byte. Version 1 had one peak for each
// day in UTC, in bytes: bit set of the days by age (4 bytes), and of each day the highest usage and
// the highest need. It did not store which slots have samples. The restored history has the day's
// peak in each slot of the day, and samples in each slot from the first to the last.
func (d *decoder) version1() (*History, error) {
	h := &History{halfLife: d.number(1, uint64(maxHalfLife))}
	d.cpu(h)
	if h.samples > 0 {
		for age := range min(slotOf(h.last)-slotOf(h.first)+1, slotCount) {
			h.covered.add(age)
		}
	}
	d.days(h)
	if d.failed || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: the content is invalid", ErrCheckpoint)
	}
	return h, nil
}

// days reads the peaks of days. The newest day ends with the newest sample.
func (d *decoder) days(h *History) {
	newest := d.number(0, maxTime/windowLength)
	if newest == 0 {
		return
	}
	set := binary.LittleEndian.Uint32(d.next(4))
	if set >= 1<<windowCount {
		d.failed = true
		return
	}
	for ; set != 0; set &= set - 1 {
		start := (newest - int64(bits.TrailingZeros32(set))) * windowLength
		used := d.number(0, uint64(memoryScale.limit))
		needed := d.number(0, 2*uint64(memoryScale.limit))
		if start < minTime {
			d.failed = true
			return
		}
		end := start + windowLength - 1
		if start/windowLength == newest {
			end = min(end, max(start, h.last))
		}
		for slot := slotOf(start); slot <= slotOf(end); slot++ {
			h.memory.raise(slot, float64(max(used, needed)))
		}
	}
}
