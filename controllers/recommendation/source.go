package recommendation

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"example.com/upright/internal/usage"
)

// UsageOptions configure where usage is read from, and how often.
type UsageOptions struct {
	// Interval is the time between two readings.
	Interval time.Duration
	// CheckpointInterval is the minimum time between two checkpoints of a scaler.
	CheckpointInterval time.Duration
	// PrometheusURL is the address of the Prometheus to read from. If it is empty, usage comes
	// from the metrics API.
	PrometheusURL string
	// Window is the time over which CPU usage in Prometheus is averaged; 0 means the default of
	// internal/usage.
	Window time.Duration
	// History is how far back usage is read from Prometheus for a new scaler; 0 turns it off.
	History time.Duration
}

// Source is where usage comes from.
type Source struct {
	usage.Source
	// Past reads past usage. It is nil if the source has none.
	Past usage.HistoryProvider
}

// NewSource returns the source that the options select, for the given namespaces or for all if
// there are none.
func NewSource(config *rest.Config, httpClient *http.Client, namespaces []string, options UsageOptions) (Source, error) {
	if options.PrometheusURL == "" {
		metricsAPI, err := usage.NewMetricsAPI(config, httpClient, namespaces...)
		if err != nil {
			return Source{}, fmt.Errorf("set up the metrics API: %w", err)
		}
		return Source{Source: metricsAPI}, nil
	}
	prometheus, err := usage.NewPrometheus(usage.PrometheusConfig{
		URL: options.PrometheusURL, Window: options.Window, Namespaces: namespaces,
	})
	if err != nil {
		return Source{}, fmt.Errorf("set up Prometheus: %w", err)
	}
	source := Source{Source: prometheus}
	if options.History > 0 {
		source.Past = prometheus
	}
	return source, nil
}
