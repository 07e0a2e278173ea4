package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"example.com/upright/indexers"
)

// PodToVerticalScalers maps a pod to the VerticalScalers that name its Deployment.
func PodToVerticalScalers(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("pod-to-verticalscalers", failures, deploymentOfPod, verticalScalers(reader))
}

// deploymentOfPod returns the Deployment that a pod belongs to.
func deploymentOfPod(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: indexers.DeploymentOfPod(obj)}
}
