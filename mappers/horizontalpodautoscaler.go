package mappers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
)

// HorizontalPodAutoscalerToVerticalScalers maps a HorizontalPodAutoscaler to the VerticalScalers
// that target the Deployment that it scales, directly or through the Deployment's controller.
func (m *Mappers) HorizontalPodAutoscalerToVerticalScalers() handler.EventHandler {
	return m.newHandler("horizontalpodautoscaler-to-verticalscalers", scaleTarget, m.findVerticalScalersOfScaleTarget)
}

// scaleTarget returns the object that a HorizontalPodAutoscaler scales. Its name includes the kind.
func scaleTarget(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: indexers.ScaleTargetOf(obj)}
}

// findVerticalScalersOfScaleTarget finds the VerticalScalers that target a Deployment, or the
// Deployments that an object of another kind controls.
func (m *Mappers) findVerticalScalersOfScaleTarget(ctx context.Context, target types.NamespacedName) ([]reconcile.Request, error) {
	if name, is := indexers.DeploymentOfScaleTarget(target.Name); is {
		return m.findVerticalScalers(ctx, types.NamespacedName{Namespace: target.Namespace, Name: name})
	}
	var controlled metav1.PartialObjectMetadataList
	controlled.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	if err := m.listByField(ctx, &controlled, indexers.DeploymentControllerTarget, target); err != nil {
		return nil, err
	}
	var requests []reconcile.Request
	for i := range controlled.Items {
		found, err := m.findVerticalScalers(ctx, client.ObjectKeyFromObject(&controlled.Items[i]))
		if err != nil {
			return nil, err
		}
		requests = append(requests, found...)
	}
	return requests, nil
}
