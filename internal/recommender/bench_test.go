package recommender

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// mostAtRest is the most bytes that a container's history may take in memory.
	mostAtRest = 1536
	// bytesAtRest is the bytes it does take, for there is nothing that a History points to.
	bytesAtRest = float64(unsafe.Sizeof(History{}))
)

func TestHistoryAtRestIsLessThan1536BytesAndSamplesAllocateNothing(t *testing.T) {
	assert.LessOrEqual(t, bytesAtRest, float64(mostAtRest))
	h := New(DefaultHalfLife)
	minute := 0
	assert.Zero(t, testing.AllocsPerRun(10000, func() {
		minute++
		addSample(h, minute)
	}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Recommend(DefaultPolicy(2)) }))
	assert.Equal(t, int64(minute), h.Recommend(DefaultPolicy(2)).Samples)
}

// addSample adds the usage of some minute, of both resources.
func addSample(h *History, minute int) {
	at := monday.Add(time.Duration(minute) * time.Minute)
	if h.AddCPU(at, 0.1+float64(minute%97)/100) != nil || h.AddMemory(at, int64(300+minute%101)*mebi) != nil {
		panic("not a sample")
	}
}

// BenchmarkAddSample adds a sample of CPU and one of memory.
func BenchmarkAddSample(b *testing.B) {
	h := New(DefaultHalfLife)
	b.ReportAllocs()
	for minute := 0; b.Loop(); minute++ {
		addSample(h, minute)
	}
}

// BenchmarkPercentile takes one percentile of each resource after two weeks of samples.
func BenchmarkPercentile(b *testing.B) {
	h := twoWeeks()
	b.ReportAllocs()
	for b.Loop() {
		memory := h.memory.histogram(h.halfLife)
		if h.cpu.percentile(0.9) == 0 || memory.percentile(0.9) == 0 {
			b.Fatal("no samples")
		}
	}
}

// BenchmarkRecommend makes a whole recommendation after two weeks of samples.
func BenchmarkRecommend(b *testing.B) {
	h, policy := twoWeeks(), DefaultPolicy(2)
	b.ReportAllocs()
	for b.Loop() {
		if h.Recommend(policy).CPU.Target == 0 {
			b.Fatal("no samples")
		}
	}
}

// BenchmarkHistoryAtRest makes a history. Since it never grows, what that allocates is what a
// container costs at rest, however many samples it has.
func BenchmarkHistoryAtRest(b *testing.B) {
	b.ReportAllocs()
	var h *History
	for b.Loop() {
		h = New(DefaultHalfLife)
	}
	b.ReportMetric(bytesAtRest, "B/history")
	assert.NotNil(b, h)
}

// BenchmarkCheckpoint saves a history of two weeks.
func BenchmarkCheckpoint(b *testing.B) {
	h := twoWeeks()
	b.ReportAllocs()
	for b.Loop() {
		h.Checkpoint()
	}
	b.ReportMetric(float64(len(h.Checkpoint())), "B/checkpoint")
}

// BenchmarkRestore restores a history of two weeks.
func BenchmarkRestore(b *testing.B) {
	checkpoint := twoWeeks().Checkpoint()
	b.ReportAllocs()
	for b.Loop() {
		_, err := Restore(checkpoint)
		require.NoError(b, err)
	}
}
