package recommendation

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/upright/internal/usage"
)

// metrics are the metrics of usage, OOM kills and checkpoints.
type metrics struct {
	read, attributed prometheus.Counter
	dropped          *prometheus.CounterVec
	failures         prometheus.Counter
	cycles           prometheus.Histogram
	oomKills         prometheus.Counter
	checkpoints      *prometheus.CounterVec
	newest           atomic.Int64 // Time of the newest sample in nanoseconds since 1970; 0 if there is none.
}

// Results of a checkpoint's write.
const (
	checkpointOK         = "ok"
	checkpointFailed     = "failed"
	checkpointSuperseded = "superseded"
)

// newMetrics returns the metrics and registers them.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		read: counter("upright_usage_samples_read_total", "Number of usage samples that were read."),
		attributed: counter("upright_usage_samples_attributed_total",
			"Number of usage samples that were added to the history of a VerticalScaler's target."),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_usage_samples_dropped_total",
			Help: "Number of usage samples that were ignored, by reason: seen before, stale, unusable, or of a container that no VerticalScaler sizes (unattributed).",
		}, []string{"reason"}),
		failures: counter("upright_usage_read_failures_total", "Number of readings of usage that failed."),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "upright_usage_cycle_duration_seconds",
			Help:    "Duration of one reading of usage, including learning from it.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}),
		oomKills: counter("upright_oom_kills_total", "Number of OOM kills that were added to the history of a VerticalScaler's target."),
		checkpoints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_checkpoint_writes_total",
			Help: "Number of writes of VerticalScalerCheckpoints, by result: ok, failed, or superseded by that of a later leader.",
		}, []string{"result"}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "upright_usage_newest_sample_age_seconds",
		Help: "Age of the newest usage sample that was read; 0 if there is none.",
	}, m.age)
	for _, reason := range []string{"seen", "stale", "unusable", "unattributed"} {
		m.dropped.WithLabelValues(reason)
	}
	for _, result := range []string{checkpointOK, checkpointFailed, checkpointSuperseded} {
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
func (m *metrics) age() float64 {
	newest := m.newest.Load()
	if newest == 0 {
		return 0
	}
	return time.Since(time.Unix(0, newest)).Seconds()
}

// observeCycle records the duration of a reading.
func (m *metrics) observeCycle(started time.Time) {
	m.cycles.Observe(time.Since(started).Seconds())
}

// countFiltered counts the samples that the filter dropped, and stores the time of the newest one that it returned.
func (m *metrics) countFiltered(fresh []usage.Sample, dropped usage.Dropped) {
	newest := m.newest.Load()
	for i := range fresh {
		newest = max(newest, fresh[i].Time.UnixNano())
	}
	m.newest.Store(newest)
	m.dropped.WithLabelValues("seen").Add(float64(dropped.Seen))
	m.dropped.WithLabelValues("stale").Add(float64(dropped.Stale))
	m.dropped.WithLabelValues("unusable").Add(float64(dropped.Unusable))
}

// countOutcomes counts the samples of a reading by outcome.
func (m *metrics) countOutcomes(read *reading) {
	counts := read.count()
	m.attributed.Add(float64(counts[attributed]))
	m.dropped.WithLabelValues("seen").Add(float64(counts[seen]))
	m.dropped.WithLabelValues("unusable").Add(float64(counts[unusable]))
	m.dropped.WithLabelValues("unattributed").Add(float64(counts[unattributed]))
}
