package controllers

import (
	"context"
	"slices"
	"sync"

	"example.com/upright/internal/usage"
)

// meter is a source of usage that says what it is told to.
type meter struct {
	mutex   sync.Mutex
	samples []usage.Sample
	err     error
}

// Read returns the samples, or the error.
func (m *meter) Read(context.Context) ([]usage.Sample, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.samples), m.err
}
