package indexers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeploymentController indexes Deployments by the UID of their controller.
const DeploymentController = "metadata.ownerReferences.controller"

func deploymentController(obj client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(obj)
	if controller == nil {
		return nil
	}
	return []string{string(controller.UID)}
}
