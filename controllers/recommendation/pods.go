package recommendation

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/internal/pods"
)

// TargetPods returns the pods of the Deployment that a scaler names, read-only.
func TargetPods(ctx context.Context, cache client.Reader, scaler *autoscalingv1beta1.VerticalScaler) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := cache.List(ctx, &list,
		client.InNamespace(scaler.Namespace),
		client.MatchingFields{indexers.PodDeployment: scaler.Spec.DeploymentName},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list the Deployment's pods: %w", err)
	}
	return list.Items, nil
}

// targetContainers returns the names of the containers to size, and whether a pod has them. If
// there is no pod, they are the containers of the target's template. If that is not known either,
// they are those of the published recommendations.
func targetContainers(
	scaler *autoscalingv1beta1.VerticalScaler, target *appsv1.Deployment, targetPods []corev1.Pod,
) (names []string, hasPod bool) {
	spec, pod := templateOf(target), pods.Newest(targetPods)
	if pod != nil {
		spec = &pod.Spec
	}
	if spec != nil {
		for _, container := range pods.Sizable(spec) {
			names = append(names, container.Name)
		}
		return names, pod != nil
	}
	for i := range scaler.Status.Recommendations {
		names = append(names, scaler.Status.Recommendations[i].ContainerName)
	}
	return names, false
}

// templateOf returns the pod template of a Deployment, or nil for nil.
func templateOf(deployment *appsv1.Deployment) *corev1.PodSpec {
	if deployment == nil {
		return nil
	}
	return &deployment.Spec.Template.Spec
}
