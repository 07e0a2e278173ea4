package recommender

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc64"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oneKiB is the maximum size of a checkpoint of two weeks.
const oneKiB = 1024

// twoWeeks returns the history of a pod with one sample per minute for two weeks. Usage follows a
// daily rhythm with noise and peaks.
func twoWeeks() *History {
	h := New(DefaultHalfLife)
	for minute := range 14 * 1440 {
		at := monday.Add(time.Duration(minute) * time.Minute)
		rhythm := 1.2 + math.Sin(float64(minute)*2*math.Pi/1440)
		noise := 1 + 0.3*math.Sin(float64(minute)*1.7)
		if minute%613 == 0 {
			noise = 4
		}
		if h.AddCPU(at, 0.25*rhythm*noise) != nil || h.AddMemory(at, int64(400*mebi*noise)) != nil {
			panic("invalid sample")
		}
	}
	return h
}

// largest returns a history with the largest possible checkpoint: every bucket has weight, and every
// slot has a sample and a peak.
func largest(t *testing.T) *History {
	t.Helper()
	h := New(DefaultHalfLife)
	for slot := range slotCount {
		at := monday.Add(time.Duration(slot) * slotLength * time.Second)
		for _, start := range &bucketStarts {
			addCPU(t, h, at, start*cpuScale.first*1.001/1000)
		}
		addMemory(t, h, at, math.MaxInt64)
	}
	return h
}

func TestCheckpointOfTwoWeeksIsBelow1KiB(t *testing.T) {
	assert.LessOrEqual(t, len(twoWeeks().Checkpoint()), 512)
	assert.LessOrEqual(t, len(largest(t).Checkpoint()), oneKiB, "the largest possible checkpoint")
}

func TestRestoreReturnsEqualHistory(t *testing.T) {
	onlyMemory := New(time.Hour)
	addMemory(t, onlyMemory, monday, 0)
	onlyCPU := New(1000 * day)
	addCPU(t, onlyCPU, monday, 0)
	for name, h := range map[string]*History{
		"empty": New(DefaultHalfLife), "two weeks": twoWeeks(), "largest": largest(t),
		"only memory": onlyMemory, "only CPU": onlyCPU, "longest half-life": New(math.MaxInt64),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Restore(h.Checkpoint())
			require.NoError(t, err)
			assert.Equal(t, h, got)
		})
	}
}

// Every later version must read existing checkpoints. Content, computed by hand: version 1;
// half-life 86400; 2 samples; the first at 1767571200 = 2026-01-05 00:00 UTC, the last 60 s later;
// buckets 9 (120m) and 25 (500m), bit 1 of bytes 1 and 3; their weights 1 and
// 2^(1/1440) = 1.00048; window 20458; age 0; peak 300 Mi, need 400 Mi; checksum.
func TestRestoreReadsVersion1(t *testing.T) {
	stored, err := hex.DecodeString("01" + "80a305" + "02" + "80feebca06" + "3c" +
		"00020002" + "000000000000000000000000000000000000" + "0000803f" + "c70f803f" +
		"ea9f01" + "01000000" + "8080809601" + "808080c801" + "772de8e6f21d6c0c")
	require.NoError(t, err)
	h, err := Restore(stored)
	require.NoError(t, err)

	want := New(DefaultHalfLife)
	addCPU(t, want, monday, 0.12)
	addCPU(t, want, monday.Add(time.Minute), 0.5)
	addMemory(t, want, monday, 300*mebi)
	require.NoError(t, want.AddOOMKill(monday, 300*mebi))
	assert.Equal(t, want, h)
}

// In version 1, only the day of a peak is known. It counts at any time of the day.
func TestPeaksOfVersion1CoverTheirDays(t *testing.T) {
	content := binary.AppendUvarint([]byte{1, 0x80, 0xa3, 0x05, 0}, uint64(monday.Unix()/windowLength))
	content = append(content, 0b101, 0, 0, 0)
	for _, bytes := range []uint64{300 * mebi, 0, 600 * mebi, 900 * mebi} { // Peak and need of the two days.
		content = binary.AppendUvarint(content, bytes)
	}
	h, err := Restore(seal(content))
	require.NoError(t, err)
	want := New(DefaultHalfLife)
	addMemory(t, want, monday, 300*mebi)
	for slot := range 8 {
		addMemory(t, want, monday.Add(-2*day+time.Duration(slot)*3*time.Hour), 900*mebi)
	}
	assert.Equal(t, want, h)
	assert.Equal(t, checkpointVersion, int(h.Checkpoint()[0]), "the next checkpoint has the current version")

	for name, invalid := range map[string][]byte{
		"data after the end": append(content, 0), "fewer peaks than days": content[:len(content)-1],
		"peak older than four weeks": binary.LittleEndian.AppendUint32(content[:7:7], 1<<28),
	} {
		_, err := Restore(seal(invalid))
		require.ErrorIs(t, err, ErrCheckpoint, name)
	}
}

// The same history in version 2: the slots of 2 samples and of the peak are the same, 163664; one
// byte for the slots with samples, one for the peak: bucket 23 plus 1; checksum.
func TestRestoreReadsVersion2(t *testing.T) {
	stored, err := hex.DecodeString("02" + "80a305" + "02" + "80feebca06" + "3c" +
		"00020002" + "000000000000000000000000000000000000" + "0000803f" + "c70f803f" +
		"0101" + "d0fe09" + "0118" + "7ab63bf94565e4f7")
	require.NoError(t, err)
	h, err := Restore(stored)
	require.NoError(t, err)

	want := New(DefaultHalfLife)
	addCPU(t, want, monday, 0.12)
	addCPU(t, want, monday.Add(time.Minute), 0.5)
	require.NoError(t, want.AddOOMKill(monday, 300*mebi))
	assert.Equal(t, want, h)
}

func TestRestoreErrorNamesTheDefect(t *testing.T) {
	whole := twoWeeks().Checkpoint()
	content := whole[:len(whole)-checksumBytes]
	for want, data := range map[string][]byte{
		"unusable checkpoint: 3 bytes are too few":                               whole[:3],
		"unusable checkpoint: the checksum is wrong":                             append([]byte{0}, whole[1:]...),
		"unusable checkpoint: version 3 is not supported, only versions up to 2": seal(append([]byte{3}, content[1:]...)),
		"unusable checkpoint: the content is invalid":                            seal(content[:len(content)-1]),
	} {
		_, err := Restore(data)
		require.EqualError(t, err, want)
	}
}

func TestRestoreRejectsDamagedCheckpoint(t *testing.T) {
	whole := twoWeeks().Checkpoint()
	for length := range whole {
		_, err := Restore(whole[:length])
		require.ErrorIs(t, err, ErrCheckpoint, "truncated after %d bytes", length)
	}
	for bit := range len(whole) * 8 {
		damaged := append([]byte(nil), whole...)
		damaged[bit/8] ^= 1 << (bit % 8)
		_, err := Restore(damaged)
		require.ErrorIs(t, err, ErrCheckpoint, "bit %d flipped", bit)
	}
	_, err := Restore(append(append([]byte(nil), whole...), 0))
	require.ErrorIs(t, err, ErrCheckpoint, "one byte too many")
}

// seal returns the content with a valid checksum.
func seal(content []byte) []byte {
	return binary.LittleEndian.AppendUint64(append([]byte(nil), content...), crc64.Checksum(content, crcTable))
}

func TestRestoreRejectsInvalidContentWithValidChecksum(t *testing.T) {
	var (
		head    = []byte{checkpointVersion, 0x80, 0xa3, 0x05}
		two     = []byte{2, 0x80, 0xfe, 0xeb, 0xca, 0x06, 60}
		buckets = append([]byte{1}, make([]byte, bucketBytes-1)...)
		none    = make([]byte, bucketBytes)
	)
	weight := func(w float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(w)) }
	join := func(parts ...[]byte) []byte {
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	covered, noPeak := []byte{1, 1}, []byte{0}
	_, err := Restore(seal(join(head, two, buckets, weight(1), covered, noPeak)))
	require.NoError(t, err, "the valid content that the cases below modify")

	for name, content := range map[string][]byte{
		"empty":                        {},
		"unknown version":              join([]byte{3}, head[1:], []byte{0, 0}),
		"half-life 0":                  {checkpointVersion, 0, 0, 0},
		"half-life exceeds a Duration": join(binary.AppendUvarint([]byte{checkpointVersion}, math.MaxInt64), []byte{0, 0}),
		"number longer than necessary": {checkpointVersion, 0x81, 0x00, 0, 0},
		"number without end":           {checkpointVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"first sample in 1970":         join(head, []byte{2, 1, 60}, buckets, weight(1), covered, noPeak),
		"last sample after 9999":       join(head, two[:6], binary.AppendUvarint(nil, maxTime), buckets, weight(1), covered, noPeak),
		"samples without weight":       join(head, two, none, covered, noPeak),
		"weight is not a number":       join(head, two, buckets, weight(float32(math.NaN())), covered, noPeak),
		"weight below zero":            join(head, two, buckets, weight(-1), covered, noPeak),
		"weight of zero":               join(head, two, buckets, weight(0), covered, noPeak),
		"more weight than samples":     join(head, two, buckets, weight(9), covered, noPeak),
		"infinite weight":              join(head, two, buckets, weight(float32(math.Inf(1))), covered, noPeak),
		"fewer weights than buckets":   join(head, two, buckets),
		"samples in no slot":           join(head, two, buckets, weight(1), []byte{0}, noPeak),
		"no sample in the newest slot": join(head, two, buckets, weight(1), []byte{1, 2}, noPeak),
		"empty slots at the end":       join(head, two, buckets, weight(1), []byte{2, 1, 0}, noPeak),
		"slot older than four weeks":   join(head, two, buckets, weight(1), []byte{29, 1}, make([]byte, 27), []byte{3}, noPeak),
		"slot after 9999":              join(head, []byte{0}, binary.AppendUvarint(nil, maxSlot+1), []byte{1, 1}),
		"slot with negative number":    join(head, []byte{0, 5, 6, 1, 0, 0, 0, 0, 1}),
		"no peak in the newest slot":   join(head, []byte{0, 100, 2, 0, 1}),
		"no peak in any slot":          join(head, []byte{0, 100, 0}),
		"peak older than four weeks":   join(head, []byte{0}, binary.AppendUvarint(nil, 1000), []byte{226, 1, 1}, make([]byte, 224), []byte{1}),
		"peak beyond the last bucket":  join(head, []byte{0, 100, 1, bucketCount + 1}),
		"fewer peaks than slots":       join(head, []byte{0, 100, 2, 1}),
		"data after the end":           join(head, []byte{0, 0, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Restore(seal(content))
			require.ErrorIs(t, err, ErrCheckpoint)
		})
	}
}

// FuzzRestore shows that Restore and the history it returns never panic, for any bytes, with and
// without a valid checksum. If Restore accepts the bytes of the current version, Checkpoint writes
// the same bytes for the restored history.
func FuzzRestore(f *testing.F) {
	whole := twoWeeks().Checkpoint()
	f.Add([]byte{})
	f.Add(whole)
	f.Add(New(DefaultHalfLife).Checkpoint())
	f.Add(whole[:len(whole)/2])
	for _, offset := range []int{0, 1, 4, 7, 12, 14, 36, 40, len(whole) / 2, len(whole) - 20, len(whole) - 9, len(whole) - 1} {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			damaged := append([]byte(nil), whole...)
			damaged[offset] ^= mask
			f.Add(damaged)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkRestore(t, data)
		checkRestore(t, seal(data))
		checkRestore(t, seal(data[:max(0, len(data)-checksumBytes)]))
	})
}

func checkRestore(t *testing.T, data []byte) {
	t.Helper()
	h, err := Restore(data)
	if err != nil {
		require.ErrorIs(t, err, ErrCheckpoint)
		require.Nil(t, h)
		return
	}
	if data[0] == checkpointVersion {
		require.Equal(t, data, h.Checkpoint())
	}
	r := h.Recommend(DefaultPolicy(1))
	for _, e := range []Estimate{r.CPU, r.Memory} {
		require.LessOrEqual(t, e.LowerBound, e.Target)
		require.LessOrEqual(t, e.Target, e.UpperBound)
		require.LessOrEqual(t, e.UpperBound, int64(1e12+mebi))
	}
	require.NoError(t, h.AddCPU(monday, 1))
	require.NoError(t, h.AddMemory(monday, 1))
	h.Merge(twoWeeks())
}
