package controllers

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
)

// series returns the series of a manager's metric.
func series(t assert.TestingT, m *manager, name string) []*dto.Metric {
	families, err := m.metrics.Gather()
	assert.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// value returns the value of a manager's metric, that of the series which has all of the given
// label values; -1 where there is none. Of a histogram it is the number of observations.
func value(t assert.TestingT, m *manager, name string, labels ...string) float64 {
	for _, metric := range series(t, m, name) {
		isAsked := !slices.ContainsFunc(labels, func(label string) bool {
			return !slices.ContainsFunc(metric.GetLabel(), func(pair *dto.LabelPair) bool { return pair.GetValue() == label })
		})
		if isAsked {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return -1
}
