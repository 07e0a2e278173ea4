package verticalscaler

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a resize.
const (
	resizeAccepted = "accepted"
	resizeRefused  = "refused"
)

// metrics count what the controller does to targets.
type metrics struct {
	resizes  *prometheus.CounterVec
	rollouts *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

// newMetrics returns the metrics and registers them.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		resizes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_pod_resizes_total",
			Help: "Number of requests to resize a pod in place, by result: accepted or refused by the API server.",
		}, []string{"result"}),
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_rollouts_total",
			Help: "Number of rollouts of Deployments, by the reason why their pods could not be resized in place.",
		}, []string{"reason"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_refusals_total",
			Help: "Number of times that pods of a VerticalScaler could not get their size, by the reason of the condition Applied.",
		}, []string{"reason"}),
	}
	for _, reason := range replaceable {
		m.rollouts.WithLabelValues(reason)
	}
	for _, reason := range refusals {
		m.refusals.WithLabelValues(reason)
	}
	for _, result := range []string{resizeAccepted, resizeRefused} {
		m.resizes.WithLabelValues(result)
	}
	return m, errors.Join(registerer.Register(m.resizes), registerer.Register(m.rollouts), registerer.Register(m.refusals))
}
