package recommender

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"time"
)

// ErrCheckpoint is wrapped by every error that [Restore] returns.
var ErrCheckpoint = errors.New("unusable checkpoint")

// checkpointVersion is the first byte of a checkpoint. It changes with the format, and with the
// shape of buckets and slots, because the format depends on them. [Restore] also reads version 1.
const checkpointVersion = 2

const (
	bucketBytes   = bucketCount / 8
	coverageBytes = (slotCount + 7) / 8
	checksumBytes = crc64.Size
	maxHalfLife   = math.MaxInt64 / int64(time.Second)
	maxSlot       = maxTime / slotLength
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// Checkpoint returns the history in a compact form. [Restore] turns it into a history that gives
// the same recommendations, now and after any further samples. Two weeks of samples take less
// than 1 KiB, and usually about 300 bytes. Equal histories have equal checkpoints.
//
// Numbers are unsigned varints unless a size is given. Numbers with a size are little-endian:
//
//	version (1 byte), half-life in seconds, number of samples;
//	if there are samples: time of the first in seconds, seconds from the first to the last;
//	    bit set of the buckets with weight (22 bytes), the weight of each (float32);
//	    length and bytes of the bit set of the slots with samples, by age;
//	number of the newest slot with a peak, 0 if there are no peaks;
//	if there are peaks: number of slots up to the oldest with a peak, and from the newest on
//	    the bucket of each peak plus 1, or 0 if the slot has no peak (1 byte each);
//	CRC-64/ECMA of everything before it (8 bytes).
func (h *History) Checkpoint() []byte {
	b := make([]byte, 0, 512)
	b = append(b, checkpointVersion)
	b = binary.AppendUvarint(b, uint64(h.halfLife))
	b = h.appendCPU(b)
	b = h.appendMemory(b)
	return binary.LittleEndian.AppendUint64(b, crc64.Checksum(b, crcTable))
}

func (h *History) appendCPU(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(h.samples))
	if h.samples == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(h.first))
	b = binary.AppendUvarint(b, uint64(h.last-h.first))
	var used [bucketBytes]byte
	for n, weight := range h.cpu {
		if weight > 0 {
			used[n/8] |= 1 << (n % 8)
		}
	}
	b = append(b, used[:]...)
	for _, weight := range h.cpu {
		if weight > 0 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(weight))
		}
	}
	return h.covered.append(b)
}

func (c *coverage) append(b []byte) []byte {
	var all [coverageBytes]byte
	length := 0
	for age := range int32(slotCount) {
		if c.has(age) {
			all[age/8] |= 1 << (age % 8)
			length = int(age/8) + 1
		}
	}
	return append(append(b, byte(length)), all[:length]...)
}

func (h *History) appendMemory(b []byte) []byte {
	p := &h.memory
	b = binary.AppendUvarint(b, uint64(p.newest))
	if p.newest == 0 {
		return b
	}
	var byAge [slotCount]byte
	length := 0
	for age := range min(slotCount, p.newest) {
		if byAge[age] = p.buckets[(p.newest-age)%slotCount]; byAge[age] > 0 {
			length = int(age) + 1
		}
	}
	b = binary.AppendUvarint(b, uint64(length))
	return append(b, byAge[:length]...)
}

// Restore returns the history that was saved in a checkpoint. If the checkpoint is damaged or has
// an unknown version, Restore returns an error that wraps [ErrCheckpoint].
func Restore(checkpoint []byte) (*History, error) {
	content := len(checkpoint) - checksumBytes
	if content < 0 {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCheckpoint, len(checkpoint))
	}
	if binary.LittleEndian.Uint64(checkpoint[content:]) != crc64.Checksum(checkpoint[:content], crcTable) {
		return nil, fmt.Errorf("%w: the checksum is wrong", ErrCheckpoint)
	}
	d := decoder{rest: checkpoint[:content]}
	version := d.next(1)[0]
	if version == 1 {
		return d.version1()
	}
	if version != checkpointVersion {
		return nil, fmt.Errorf("%w: version %d is not supported, only versions up to %d", ErrCheckpoint, version, checkpointVersion)
	}
	h := &History{halfLife: d.number(1, uint64(maxHalfLife))}
	d.cpu(h)
	if h.samples > 0 {
		d.coverage(&h.covered)
	}
	d.memory(&h.memory)
	// Each history has exactly one encoding, so any other invalid content changes when it is
	// encoded again.
	if d.failed || !bytes.Equal(h.Checkpoint(), checkpoint) {
		return nil, fmt.Errorf("%w: the content is invalid", ErrCheckpoint)
	}
	return h, nil
}

// decoder reads the content of a checkpoint. After a failure it returns zeros or
// minimums.
type decoder struct {
	rest   []byte
	failed bool
}

// next returns the next n bytes.
func (d *decoder) next(n int) []byte {
	if len(d.rest) < n {
		d.failed, d.rest = true, nil
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// number returns the next varint. It fails if the value is below minimum or above maximum.
func (d *decoder) number(minimum, maximum uint64) int64 {
	value, n := binary.Uvarint(d.rest)
	if n <= 0 || value < minimum || value > maximum {
		d.failed, d.rest = true, nil
		return int64(minimum)
	}
	d.rest = d.rest[n:]
	return int64(value)
}

// cpu reads the output of appendCPU.
func (d *decoder) cpu(h *History) {
	h.samples = d.number(0, math.MaxInt64)
	if h.samples == 0 {
		return
	}
	h.first = d.number(minTime, maxTime)
	h.last = h.first + d.number(0, uint64(maxTime-h.first))
	used := d.next(bucketBytes)
	for n := range h.cpu {
		if used[n/8]&(1<<(n%8)) == 0 {
			continue
		}
		h.cpu[n] = math.Float32frombits(binary.LittleEndian.Uint32(d.next(4)))
		maximum := 4 * float64(h.samples)
		if !(h.cpu[n] >= minWeight && float64(h.cpu[n]) <= maximum) { // This form also rejects NaN.
			d.failed = true
		}
	}
	if h.cpu.percentile(1) == 0 {
		d.failed = true
	}
}

// coverage reads the output of coverage.append.
func (d *decoder) coverage(c *coverage) {
	for n, bits := range d.next(int(d.number(1, coverageBytes))) {
		for bit := range int32(8) {
			if bits&(1<<bit) != 0 {
				c.add(int32(n)*8 + bit)
			}
		}
	}
	if !c.has(0) {
		d.failed = true
	}
}

// memory reads the output of appendMemory.
func (d *decoder) memory(p *peaks) {
	newest := int32(d.number(0, maxSlot))
	if newest == 0 {
		return
	}
	for age, bucket := range d.next(int(d.number(1, uint64(min(slotCount, newest))))) {
		if bucket > bucketCount || age == 0 && bucket == 0 {
			d.failed = true
			return
		}
		if bucket > 0 {
			p.raiseTo(newest-int32(age), bucket)
		}
	}
}
