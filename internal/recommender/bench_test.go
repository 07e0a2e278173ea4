package recommender

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// maxHistoryBytes is the maximum memory of a container's history.
	maxHistoryBytes = 1024
	// historyBytes is the memory of a history. A History has no pointers to any more memory.
	historyBytes = float64(unsafe.Sizeof(History{}))
)

func TestHistoryIsAtMost1KiBAndAllocatesNothing(t *testing.T) {
	assert.LessOrEqual(t, historyBytes, float64(maxHistoryBytes))
	h := New(DefaultHalfLife)
	minute := 0
	assert.Zero(t, testing.AllocsPerRun(10000, func() {
		minute++
		addSample(h, minute)
	}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Recommend(DefaultPolicy(2)) }))
	assert.Equal(t, int64(minute), h.Recommend(DefaultPolicy(2)).Samples)
}

// addSample adds the usage of both resources in the given minute.
func addSample(h *History, minute int) {
	at := monday.Add(time.Duration(minute) * time.Minute)
	if h.AddCPU(at, 0.1+float64(minute%97)/100) != nil || h.AddMemory(at, int64(300+minute%101)*mebi) != nil {
		panic("invalid sample")
	}
}

// BenchmarkAddSample adds one CPU sample and one memory sample.
func BenchmarkAddSample(b *testing.B) {
	h := New(DefaultHalfLife)
	b.ReportAllocs()
	for minute := 0; b.Loop(); minute++ {
		addSample(h, minute)
	}
}

// BenchmarkPercentile computes one percentile of each resource after two weeks of samples.
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

// BenchmarkRecommend computes a whole recommendation after two weeks of samples.
func BenchmarkRecommend(b *testing.B) {
	h, policy := twoWeeks(), DefaultPolicy(2)
	b.ReportAllocs()
	for b.Loop() {
		if h.Recommend(policy).CPU.Target == 0 {
			b.Fatal("no samples")
		}
	}
}

// BenchmarkHistoryAtRest creates a history. A history never grows, so the memory allocated here is
// the memory of a container's history with any number of samples.
func BenchmarkHistoryAtRest(b *testing.B) {
	b.ReportAllocs()
	var h *History
	for b.Loop() {
		h = New(DefaultHalfLife)
	}
	b.ReportMetric(historyBytes, "B/history")
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
