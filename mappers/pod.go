package mappers

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"example.com/upright/indexers"
)

// PodToVerticalScalers maps a pod to the VerticalScalers that target its Deployment.
func (m *Mappers) PodToVerticalScalers() handler.EventHandler {
	return m.newHandler("pod-to-verticalscalers", deploymentOfPod, m.findVerticalScalers)
}

// deploymentOfPod returns the Deployment that a pod belongs to.
func deploymentOfPod(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: indexers.DeploymentOfPod(obj)}
}
