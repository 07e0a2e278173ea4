package mappers

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"example.com/upright/indexers"
)

// HorizontalPodAutoscalerToVerticalScalers maps a HorizontalPodAutoscaler to the VerticalScalers
// that target the same Deployment.
func (m *Mappers) HorizontalPodAutoscalerToVerticalScalers() handler.EventHandler {
	return m.newHandler("horizontalpodautoscaler-to-verticalscalers", scaledDeployment, m.findVerticalScalers)
}

// scaledDeployment returns the Deployment that a HorizontalPodAutoscaler scales.
func scaledDeployment(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: indexers.DeploymentOfHorizontalPodAutoscaler(obj)}
}
