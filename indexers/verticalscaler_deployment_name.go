package indexers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// VerticalScalerDeploymentName is the index that finds VerticalScalers by the name of the Deployment that they size.
const VerticalScalerDeploymentName = "spec.deploymentName"

// AddVerticalScalerDeploymentName registers the index.
func AddVerticalScalerDeploymentName(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &autoscalingv1beta1.VerticalScaler{}, VerticalScalerDeploymentName, verticalScalerDeploymentName); err != nil {
		return fmt.Errorf("index VerticalScalers by %s: %w", VerticalScalerDeploymentName, err)
	}
	return nil
}

func verticalScalerDeploymentName(obj client.Object) []string {
	scaler, ok := obj.(*autoscalingv1beta1.VerticalScaler)
	if !ok || scaler.Spec.DeploymentName == "" {
		return nil
	}
	return []string{scaler.Spec.DeploymentName}
}
