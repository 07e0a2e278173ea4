package controllers

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/upright/internal/usage"
)

// usageMetrics are what the collector of usage tells the operators of the manager.
type usageMetrics struct {
	read, attributed prometheus.Counter
	dropped          *prometheus.CounterVec
	failures         prometheus.Counter
	cycles           prometheus.Histogram
	oomKills         prometheus.Counter
	checkpoints      *prometheus.CounterVec
	newest           atomic.Int64 // Time of the newest sample in nanoseconds since 1970; 0 without one.
}

// newUsageMetrics returns the metrics, registered with registerer.
func newUsageMetrics(registerer prometheus.Registerer) (*usageMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &usageMetrics{
		read: counter("upright_usage_samples_read_total", "Samples of containers' usage that were read."),
		attributed: counter("upright_usage_samples_attributed_total",
			"Samples of containers' usage that were added to what is known for a VerticalScaler."),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_usage_samples_dropped_total",
			Help: "Samples of containers' usage that were not used, by reason: seen before, stale, unusable, or of no VerticalScaler's container (unattributed).",
		}, []string{"reason"}),
		failures: counter("upright_usage_read_failures_total", "Readings of usage that failed."),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "upright_usage_cycle_duration_seconds",
			Help:    "Time that one reading of usage took, with all that was learned from it.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}),
		oomKills: counter("upright_oom_kills_total", "OOM kills of targets' containers that were counted."),
		checkpoints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_checkpoint_writes_total",
			Help: "Writes of VerticalScalerCheckpoints, by result: ok or failed.",
		}, []string{"result"}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "upright_usage_newest_sample_age_seconds",
		Help: "Age of the newest sample of usage that was read; 0 before there is one.",
	}, m.age)
	for _, reason := range []string{"seen", "stale", "unusable", "unattributed"} {
		m.dropped.WithLabelValues(reason)
	}
	for _, result := range []string{"ok", "failed"} {
		m.checkpoints.WithLabelValues(result)
	}
	var errs []error
	for _, collector := range []prometheus.Collector{
		m.read, m.attributed, m.dropped, m.failures, m.cycles, m.oomKills, m.checkpoints, age,
	} {
		errs = append(errs, registerer.Register(collector))
	}
	return m, errors.Join(errs...)
}

// age returns the age of the newest sample in seconds.
func (m *usageMetrics) age() float64 {
	newest := m.newest.Load()
	if newest == 0 {
		return 0
	}
	return time.Since(time.Unix(0, newest)).Seconds()
}

func (m *usageMetrics) timeCycle(started time.Time) {
	m.cycles.Observe(time.Since(started).Seconds())
}

// countFiltered counts what a filter dropped, and takes note of the newest sample that it passed.
func (m *usageMetrics) countFiltered(fresh []usage.Sample, dropped usage.Dropped) {
	newest := m.newest.Load()
	for i := range fresh {
		newest = max(newest, fresh[i].Time.UnixNano())
	}
	m.newest.Store(newest)
	m.dropped.WithLabelValues("seen").Add(float64(dropped.Seen))
	m.dropped.WithLabelValues("stale").Add(float64(dropped.Stale))
	m.dropped.WithLabelValues("unusable").Add(float64(dropped.Unusable))
}

// countFates counts what became of the samples that a filter passed.
func (m *usageMetrics) countFates(read *readSamples) {
	counts := read.count()
	m.attributed.Add(float64(counts[attributed]))
	m.dropped.WithLabelValues("seen").Add(float64(counts[seen]))
	m.dropped.WithLabelValues("unusable").Add(float64(counts[unusable]))
	m.dropped.WithLabelValues("unattributed").Add(float64(counts[unattributed]))
}
