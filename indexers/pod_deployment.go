package indexers

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodDeployment is the index that finds pods by the name of the Deployment that they belong to.
const PodDeployment = "metadata.ownerReferences.deployment"

// AddPodDeployment registers the index.
func AddPodDeployment(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, PodDeployment, podDeployment); err != nil {
		return fmt.Errorf("index pods by %s: %w", PodDeployment, err)
	}
	return nil
}

func podDeployment(obj client.Object) []string {
	if name := DeploymentOfPod(obj); name != "" {
		return []string{name}
	}
	return nil
}

// DeploymentOfPod returns the name of the Deployment that a pod belongs to, or nothing where
// it belongs to none. It takes no look at the ReplicaSet: that of a Deployment is called
// <deployment>-<hash>, and the hash is a label of its pods, which other pods do not have.
func DeploymentOfPod(pod client.Object) string {
	hash := pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	controller := metav1.GetControllerOfNoCopy(pod)
	if hash == "" || controller == nil ||
		controller.APIVersion != appsv1.SchemeGroupVersion.String() || controller.Kind != "ReplicaSet" {
		return ""
	}
	deployment, isOf := strings.CutSuffix(controller.Name, "-"+hash)
	if !isOf {
		return ""
	}
	return deployment
}
