package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"example.com/upright/indexers"
)

// HorizontalPodAutoscalerToVerticalScalers maps a HorizontalPodAutoscaler to the
// VerticalScalers that name the Deployment which it scales.
func HorizontalPodAutoscalerToVerticalScalers(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("horizontalpodautoscaler-to-verticalscalers", failures, scaledDeployment, verticalScalers(reader))
}

// scaledDeployment returns the Deployment that a HorizontalPodAutoscaler scales.
func scaledDeployment(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: indexers.DeploymentOfHorizontalPodAutoscaler(obj)}
}
