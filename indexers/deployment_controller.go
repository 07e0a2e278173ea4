package indexers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeploymentController is the index that finds Deployments by the UID of the object that controls them.
const DeploymentController = "metadata.ownerReferences.controller"

// AddDeploymentController registers the index.
func AddDeploymentController(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &appsv1.Deployment{}, DeploymentController, deploymentController); err != nil {
		return fmt.Errorf("index Deployments by %s: %w", DeploymentController, err)
	}
	return nil
}

func deploymentController(obj client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(obj)
	if controller == nil {
		return nil
	}
	return []string{string(controller.UID)}
}
