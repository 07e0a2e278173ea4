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

// ErrCheckpoint is what the error wraps that [Restore] returns.
var ErrCheckpoint = errors.New("unusable checkpoint")

// checkpointVersion is the first byte of a checkpoint. It changes with the format, and with the
// buckets' and windows' shape, on which the format rests.
const checkpointVersion = 1

const (
	bucketBytes   = bucketCount / 8
	checksumBytes = crc64.Size
	maxHalfLife   = math.MaxInt64 / int64(time.Second)
	maxWindow     = maxTime / windowLength
)

var checksums = crc64.MakeTable(crc64.ECMA)

// Checkpoint returns the history in a compact form, from which [Restore] makes one that gives
// the same recommendations, now and with any further samples. Two weeks of samples take less
// than 1 KiB, and usually about 300 bytes. The same history has the same checkpoint.
//
// Numbers are unsigned varints where not said otherwise, fixed ones are little-endian:
//
//	version (1 byte), half-life in seconds, number of samples;
//	if there are samples: the first one's time in seconds, seconds from there to the last;
//	    bit set of the buckets with weight (22 bytes), the weight of each (float32);
//	number of the newest window, 0 without peaks;
//	if there are peaks: bit set of the windows, by age (4 bytes), peak and need of each in bytes;
//	CRC-64/ECMA of all that (8 bytes).
func (h *History) Checkpoint() []byte {
	b := make([]byte, 0, 512)
	b = append(b, checkpointVersion)
	b = binary.AppendUvarint(b, uint64(h.halfLife))
	b = h.appendCPU(b)
	b = h.appendMemory(b)
	return binary.LittleEndian.AppendUint64(b, crc64.Checksum(b, checksums))
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

// Restore returns the history that a checkpoint was taken of. If the checkpoint is damaged, or
// of a version that is not known, it returns an error that wraps [ErrCheckpoint].
func Restore(checkpoint []byte) (*History, error) {
	content := len(checkpoint) - checksumBytes
	if content < 0 {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCheckpoint, len(checkpoint))
	}
	if binary.LittleEndian.Uint64(checkpoint[content:]) != crc64.Checksum(checkpoint[:content], checksums) {
		return nil, fmt.Errorf("%w: the checksum is wrong", ErrCheckpoint)
	}
	d := decoder{rest: checkpoint[:content]}
	if version := d.next(1)[0]; version != checkpointVersion {
		return nil, fmt.Errorf("%w: version %d is not known, only %d", ErrCheckpoint, version, checkpointVersion)
	}
	h := &History{halfLife: d.number(1, uint64(maxHalfLife))}
	d.cpu(h)
	d.memory(h)
	// There is one way to write a history: whatever else makes no sense is written differently.
	if d.failed || !bytes.Equal(h.Checkpoint(), checkpoint) {
		return nil, fmt.Errorf("%w: the content makes no sense", ErrCheckpoint)
	}
	return h, nil
}

// decoder reads a checkpoint's content. Once failed, it goes on with zeros.
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

// number returns the next varint, which must be in the range.
func (d *decoder) number(least, most uint64) int64 {
	value, n := binary.Uvarint(d.rest)
	if n <= 0 || value < least || value > most {
		d.failed, d.rest = true, nil
		return int64(least)
	}
	d.rest = d.rest[n:]
	return int64(value)
}

// cpu reads what appendCPU wrote.
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
		if most := 4 * float64(h.samples); !(h.cpu[n] >= minWeight && float64(h.cpu[n]) <= most) { // Nor is it NaN.
			d.failed = true
		}
	}
	if h.cpu.percentile(1) == 0 {
		d.failed = true
	}
}

// memory reads what appendMemory wrote.
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
