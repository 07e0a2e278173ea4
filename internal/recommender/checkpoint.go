package recommender

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"math/bits"
	"time"
)

// ErrCheckpoint is wrapped by every error that [Restore] returns.
var ErrCheckpoint = errors.New("unusable checkpoint")

// checkpointVersion is the first byte of a checkpoint. It changes with the format, and with the
// shape of buckets and windows, because the format depends on them.
const checkpointVersion = 1

const (
	bucketBytes   = bucketCount / 8
	checksumBytes = crc64.Size
	maxHalfLife   = math.MaxInt64 / int64(time.Second)
	maxWindow     = maxTime / windowLength
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
//	number of the newest window, 0 if there are no peaks;
//	if there are peaks: bit set of the windows, by age (4 bytes), peak and need of each in bytes;
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
	return b
}

func (h *History) appendMemory(b []byte) []byte {
	newest := h.memory.newest()
	b = binary.AppendUvarint(b, uint64(newest))
	if newest == 0 {
		return b
	}
	var byAge [windowCount]peak
	var used uint32
	for _, peak := range h.memory {
		if age := newest - peak.window; peak.window > 0 && age < windowCount {
			byAge[age] = peak
			used |= 1 << age
		}
	}
	b = binary.LittleEndian.AppendUint32(b, used)
	for _, peak := range &byAge {
		if peak.window > 0 {
			b = binary.AppendUvarint(b, uint64(peak.used))
			b = binary.AppendUvarint(b, uint64(peak.needed))
		}
	}
	return b
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
	if version := d.next(1)[0]; version != checkpointVersion {
		return nil, fmt.Errorf("%w: version %d is not supported, only version %d", ErrCheckpoint, version, checkpointVersion)
	}
	h := &History{halfLife: d.number(1, uint64(maxHalfLife))}
	d.cpu(h)
	d.memory(h)
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

// memory reads the output of appendMemory.
func (d *decoder) memory(h *History) {
	newest := int32(d.number(0, maxWindow))
	if newest == 0 {
		return
	}
	used := binary.LittleEndian.Uint32(d.next(4))
	for ; used != 0; used &= used - 1 {
		age := int32(bits.TrailingZeros32(used))
		p := h.memory.at(max(newest-age, 0))
		if p == nil {
			d.failed = true
			return
		}
		p.used = d.number(0, uint64(memoryScale.limit))
		p.needed = d.number(0, 2*uint64(memoryScale.limit))
	}
}
