package mappers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// LimitRangeToVerticalScalers maps a LimitRange to all VerticalScalers in its namespace.
func (m *Mappers) LimitRangeToVerticalScalers() handler.EventHandler {
	return m.newHandler("limitrange-to-verticalscalers", client.ObjectKeyFromObject, m.findVerticalScalersOfNamespace)
}
