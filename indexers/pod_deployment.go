package indexers

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodDeployment indexes pods by the name of their Deployment.
const PodDeployment = "metadata.ownerReferences.deployment"

func podDeployment(obj client.Object) []string {
	if name := DeploymentOfPod(obj); name != "" {
		return []string{name}
	}
	return nil
}

// DeploymentOfPod returns the name of a pod's Deployment. It returns "" if the pod belongs to no
// Deployment. It does not read the ReplicaSet, because a Deployment's ReplicaSet is named
// <deployment>-<hash>. The hash is a label of the pod. Pods of other controllers lack this label.
func DeploymentOfPod(pod client.Object) string {
	hash := pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	controller := metav1.GetControllerOfNoCopy(pod)
	if hash == "" || controller == nil ||
		controller.APIVersion != appsv1.SchemeGroupVersion.String() || controller.Kind != "ReplicaSet" {
		return ""
	}
	deployment, hasHash := strings.CutSuffix(controller.Name, "-"+hash)
	if !hasHash {
		return ""
	}
	return deployment
}
