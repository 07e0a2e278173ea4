package indexers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// VerticalScalerDeploymentName indexes VerticalScalers by the name of their target, a Deployment.
const VerticalScalerDeploymentName = "spec.deploymentName"

func verticalScalerDeploymentName(obj client.Object) []string {
	scaler, ok := obj.(*autoscalingv1beta1.VerticalScaler)
	if !ok || scaler.Spec.DeploymentName == "" {
		return nil
	}
	return []string{scaler.Spec.DeploymentName}
}
