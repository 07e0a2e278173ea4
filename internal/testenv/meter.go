package testenv

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/usage"
)

// Meter is a source of usage whose samples a test sets.
type Meter struct {
	mutex   sync.Mutex
	samples []usage.Sample
	err     error
	reads   int
}

// Read returns the samples, or the error.
func (m *Meter) Read(context.Context) ([]usage.Sample, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.reads++
	return slices.Clone(m.samples), m.err
}

// Set sets the samples of the next readings.
func (m *Meter) Set(samples ...usage.Sample) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.samples, m.err = samples, nil
}

// Fail makes the next readings fail.
func (m *Meter) Fail(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.err = err
}

// Reads returns the number of readings so far.
func (m *Meter) Reads() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.reads
}

// WaitUntilLearned waits until the manager has learned the samples: a reading that starts after
// this call has ended when the next one starts.
func (m *Meter) WaitUntilLearned(t testing.TB) {
	t.Helper()
	before := m.Reads()
	require.Eventually(t, func() bool { return m.Reads() >= before+2 }, Timeout, Poll)
}

// SteadyUsage returns samples of a container with steady usage, one a minute up to now. Samples
// older than ten minutes are stale.
func SteadyUsage(pod *corev1.Pod, container string, cores float64, mebibytes int64, count int) []usage.Sample {
	var samples []usage.Sample
	now := time.Now()
	for i := range count {
		samples = append(samples, usage.Sample{
			Pod: client.ObjectKeyFromObject(pod), Container: container,
			Time: now.Add(-time.Duration(count-1-i) * time.Minute),
			CPU:  cores, Memory: mebibytes << 20,
		})
	}
	return samples
}
