package indexers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HorizontalPodAutoscalerDeploymentName is the index that finds HorizontalPodAutoscalers by
// the name of the Deployment that they scale.
const HorizontalPodAutoscalerDeploymentName = "spec.scaleTargetRef.deployment"

// AddHorizontalPodAutoscalerDeploymentName registers the index.
func AddHorizontalPodAutoscalerDeploymentName(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{},
		HorizontalPodAutoscalerDeploymentName, horizontalPodAutoscalerDeploymentName); err != nil {
		return fmt.Errorf("index HorizontalPodAutoscalers by %s: %w", HorizontalPodAutoscalerDeploymentName, err)
	}
	return nil
}

func horizontalPodAutoscalerDeploymentName(obj client.Object) []string {
	if name := DeploymentOfHorizontalPodAutoscaler(obj); name != "" {
		return []string{name}
	}
	return nil
}

// DeploymentOfHorizontalPodAutoscaler returns the name of the Deployment that a
// HorizontalPodAutoscaler scales, or nothing where it scales something else.
func DeploymentOfHorizontalPodAutoscaler(obj client.Object) string {
	hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return ""
	}
	target := hpa.Spec.ScaleTargetRef
	group, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil || group.Group != appsv1.GroupName || target.Kind != "Deployment" {
		return ""
	}
	return target.Name
}
