package controllers

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// applyMetrics count what is done to targets.
type applyMetrics struct {
	resizes  *prometheus.CounterVec
	rollouts *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

// newApplyMetrics returns the metrics, registered with registerer.
func newApplyMetrics(registerer prometheus.Registerer) (*applyMetrics, error) {
	m := &applyMetrics{
		resizes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_pod_resizes_total",
			Help: "Resizes of pods in place that the API server was asked for, by result: accepted or refused.",
		}, []string{"result"}),
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_rollouts_total",
			Help: "Rollouts of Deployments whose pods could not be resized in place, by the reason for that.",
		}, []string{"reason"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "upright_refusals_total",
			Help: "Times that pods of a VerticalScaler could not get their size, by the reason in its condition Applied.",
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

// Results of a resize.
const (
	resizeAccepted = "accepted"
	resizeRefused  = "refused"
)
