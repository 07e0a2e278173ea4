package indexers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// AddAll registers all indexes with the manager's cache.
func AddAll(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		kinds   string
		kind    client.Object
		field   string
		extract client.IndexerFunc
	}{
		{"Foos", &examplev1alpha1.Foo{}, FooDeploymentName, fooDeploymentName},
		{"VerticalScalers", &autoscalingv1beta1.VerticalScaler{}, VerticalScalerDeploymentName, verticalScalerDeploymentName},
		{"Deployments", &appsv1.Deployment{}, DeploymentController, deploymentController},
		{"pods", &corev1.Pod{}, PodDeployment, podDeployment},
		{"pods", &corev1.Pod{}, PodControllerKind, podControllerKind},
		{"HorizontalPodAutoscalers", &autoscalingv2.HorizontalPodAutoscaler{}, HorizontalPodAutoscalerTarget, horizontalPodAutoscalerTarget},
		{"metadata of Deployments", newDeploymentMetadata(), DeploymentControllerTarget, controllerTarget},
	} {
		if err := indexer.IndexField(ctx, index.kind, index.field, index.extract); err != nil {
			return fmt.Errorf("index %s by %s: %w", index.kinds, index.field, err)
		}
	}
	return nil
}
