package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// LimitRangeToVerticalScalers maps a LimitRange to all VerticalScalers of its namespace.
func LimitRangeToVerticalScalers(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	all := verticalScalers(reader)
	all.field = "" // Whatever Deployment they name.
	return newHandler("limitrange-to-verticalscalers", failures, client.ObjectKeyFromObject, all)
}
