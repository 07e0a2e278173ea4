// Package mappers turns the events of watched objects into reconcile requests. Each watched kind
// has its own file. Lookups read the manager's cache and never the API server.
package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mappers returns event handlers for the watches of controllers. A handler looks up the objects
// that refer to an event's object and adds a request for each to the controller's queue.
type Mappers struct {
	reader   client.Reader
	failures *prometheus.CounterVec
}

// New returns mappers that look up objects with reader and count failed lookups in failures. The
// reader must have the indexes of indexers.AddAll, as the manager's cache does.
func New(reader client.Reader, failures *prometheus.CounterVec) *Mappers {
	return &Mappers{reader: reader, failures: failures}
}

// NewFailures registers and returns the counter of failed lookups, by mapper.
func NewFailures(registerer prometheus.Registerer) (*prometheus.CounterVec, error) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "upright_map_failures_total",
		Help: "Failed lookups of the objects that refer to a changed object, by mapper. Each lookup is retried until it succeeds.",
	}, []string{"mapper"})
	return failures, registerer.Register(failures)
}
