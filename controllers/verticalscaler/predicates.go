package verticalscaler

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
)

// claimChanged accepts the events with which a VerticalScaler starts or stops naming a
// Deployment. Other changes do not concern its siblings. A cache that missed a deletion reports
// a re-created scaler, which is younger, as an update.
func claimChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, wasScaler := e.ObjectOld.(*autoscalingv1beta1.VerticalScaler)
			scaler, isScaler := e.ObjectNew.(*autoscalingv1beta1.VerticalScaler)
			return wasScaler && isScaler && (previous.UID != scaler.UID ||
				previous.Spec.DeploymentName != scaler.Spec.DeploymentName ||
				previous.DeletionTimestamp.IsZero() != scaler.DeletionTimestamp.IsZero())
		},
	}
}

// deploymentPodChanged accepts the events of a Deployment's pods that change what the cache
// keeps of a pod (cache.Trimmer).
func deploymentPodChanged() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(obj client.Object) bool { return indexers.DeploymentOfPod(obj) != "" }),
		predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				previous, wasPod := e.ObjectOld.(*corev1.Pod)
				pod, isPod := e.ObjectNew.(*corev1.Pod)
				return wasPod && isPod && (previous.UID != pod.UID ||
					previous.DeletionTimestamp.IsZero() != pod.DeletionTimestamp.IsZero() ||
					!hasSameSpec(previous, pod) ||
					!equality.Semantic.DeepEqual(previous.Status, pod.Status))
			},
		},
	)
}

// hasSameSpec compares the specs of two versions of a pod, without the node: a pod that gets a node
// still has its size.
func hasSameSpec(previous, pod *corev1.Pod) bool {
	a, b := previous.Spec, pod.Spec
	a.NodeName, b.NodeName = "", ""
	return equality.Semantic.DeepEqual(a, b)
}

// hpaSpecChanged accepts the events with which a HorizontalPodAutoscaler starts or stops scaling
// on a resource. Its status changes all the time.
func hpaSpecChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, wasHPA := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
			hpa, isHPA := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
			return wasHPA && isHPA && !equality.Semantic.DeepEqual(previous.Spec, hpa.Spec)
		},
	}
}
