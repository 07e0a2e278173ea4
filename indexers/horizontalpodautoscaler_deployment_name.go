package indexers

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HorizontalPodAutoscalerDeploymentName indexes HorizontalPodAutoscalers by the name of the
// Deployment that they scale.
const HorizontalPodAutoscalerDeploymentName = "spec.scaleTargetRef.deployment"

func horizontalPodAutoscalerDeploymentName(obj client.Object) []string {
	if name := DeploymentOfHorizontalPodAutoscaler(obj); name != "" {
		return []string{name}
	}
	return nil
}

// DeploymentOfHorizontalPodAutoscaler returns the name of the Deployment that a
// HorizontalPodAutoscaler scales. It returns "" if the autoscaler scales another kind.
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
