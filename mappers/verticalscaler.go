package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// VerticalScalerToSiblings maps a VerticalScaler to all that name the same Deployment, so
// that one steps in when the scaler before it goes away or turns to another Deployment.
func VerticalScalerToSiblings(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("verticalscaler-to-siblings", failures, targetOf, verticalScalers(reader))
}

// targetOf returns the Deployment that a VerticalScaler names.
func targetOf(obj client.Object) types.NamespacedName {
	scaler, ok := obj.(*autoscalingv1beta1.VerticalScaler)
	if !ok {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: scaler.Namespace, Name: scaler.Spec.DeploymentName}
}
