package testenv

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	"example.com/upright/internal/cache"
)

// Change changes the options of a manager, or its connection to the API server, before it is
// created.
type Change = func(*ctrl.Options, *rest.Config)

// Setup adds controllers to a manager. Their metrics go to the registry.
type Setup func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error

// Manager is a running manager.
type Manager struct {
	Metrics *prometheus.Registry
	stop    func()
}

// Stop stops the manager and waits until it has stopped. It may be called more than once.
func (m *Manager) Stop() { m.stop() }

// StartManager runs a manager of some namespaces, or of all if there are none, until the test
// ends. A panic in a reconcile fails the test.
func (e *Environment) StartManager(t testing.TB, namespaces []string, setup Setup, changes ...Change) *Manager {
	t.Helper()
	restConfig := rest.CopyConfig(e.Config)
	options := ctrl.Options{
		Scheme:     apis.NewScheme(),
		Logger:     newLogger(t),
		Cache:      cache.Options(namespaces),
		Client:     cache.ClientOptions(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), RecoverPanic: new(false)},
	}
	for _, change := range changes {
		change(&options, restConfig)
	}
	options.BaseContext = func() context.Context { return log.IntoContext(context.Background(), options.Logger) }
	mgr, err := ctrl.NewManager(restConfig, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{Metrics: prometheus.NewRegistry()}
	require.NoError(t, setup(ctx, mgr, m.Metrics))
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-stopped)
	})
	t.Cleanup(m.stop)
	return m
}

// newLogger returns a logger that writes to the test's log until the test ends. The recorder of
// events outlives its manager and would otherwise log after that.
func newLogger(t testing.TB) logr.Logger {
	t.Helper()
	var (
		mutex sync.Mutex
		ended bool
	)
	t.Cleanup(func() {
		mutex.Lock()
		defer mutex.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, line string) {
		mutex.Lock()
		defer mutex.Unlock()
		if !ended {
			t.Log(prefix, line)
		}
	}, funcr.Options{})
}

// Series returns the series of a metric.
func (m *Manager) Series(t assert.TestingT, name string) []*dto.Metric {
	families, err := m.Metrics.Gather()
	assert.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// Value returns the value of the first series of a metric that has all of the given label
// values, or -1 if there is none. The value of a histogram is its number of observations.
func (m *Manager) Value(t assert.TestingT, name string, labels ...string) float64 {
	for _, metric := range m.Series(t, name) {
		isMatch := !slices.ContainsFunc(labels, func(label string) bool {
			return !slices.ContainsFunc(metric.GetLabel(), func(pair *dto.LabelPair) bool { return pair.GetValue() == label })
		})
		if isMatch {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return -1
}
