package mappers

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// VerticalScalerToSiblings maps a VerticalScaler to all VerticalScalers with the same target. If
// the active one is deleted or gets another target, the next one takes over.
func (m *Mappers) VerticalScalerToSiblings() handler.EventHandler {
	return m.newHandler("verticalscaler-to-siblings", targetOf, m.findVerticalScalers)
}

// targetOf returns the Deployment that a VerticalScaler targets.
func targetOf(obj client.Object) types.NamespacedName {
	scaler, ok := obj.(*autoscalingv1beta1.VerticalScaler)
	if !ok {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: scaler.Namespace, Name: scaler.Spec.DeploymentName}
}
