package controllers

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/upright/internal/usage"
)

// UsageOptions say where usage is read, and how often.
type UsageOptions struct {
	// Interval is the time from one reading to the next.
	Interval time.Duration
	// CheckpointInterval is the time after which what was learned is saved.
	CheckpointInterval time.Duration
	// PrometheusURL is the address of the Prometheus to read from; without it, usage comes from
	// the metrics API.
	PrometheusURL string
	// Window is the time that CPU usage in Prometheus is averaged over; 0 stands for
	// usage.DefaultWindow.
	Window time.Duration
	// History is how much of the past is read from Prometheus for a new scaler; 0 for nothing.
	History time.Duration
}

// usageSource is where usage comes from.
type usageSource struct {
	usage.Source
	// past reads the usage of before, nil where nothing does.
	past usage.Historian
}

// newUsageSource returns the source that the options ask for.
func newUsageSource(mgr ctrl.Manager, options Options) (usageSource, error) {
	if options.Usage.PrometheusURL == "" {
		metricsAPI, err := usage.NewMetricsAPI(mgr.GetConfig(), mgr.GetHTTPClient(), options.Namespaces...)
		if err != nil {
			return usageSource{}, fmt.Errorf("set up the metrics API: %w", err)
		}
		return usageSource{Source: metricsAPI}, nil
	}
	prometheus, err := usage.NewPrometheus(usage.PrometheusConfig{
		URL: options.Usage.PrometheusURL, Window: options.Usage.Window, Namespaces: options.Namespaces,
	})
	if err != nil {
		return usageSource{}, fmt.Errorf("set up Prometheus: %w", err)
	}
	source := usageSource{Source: prometheus}
	if options.Usage.History > 0 {
		source.past = prometheus
	}
	return source, nil
}
