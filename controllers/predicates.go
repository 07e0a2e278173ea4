package controllers

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
)

// controllerChanged lets through the events by which a Deployment's name becomes free or
// taken. All else that happens to a Deployment concerns its controller alone.
func controllerChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return controllerUID(e.ObjectOld) != controllerUID(e.ObjectNew)
		},
	}
}

func controllerUID(obj client.Object) types.UID {
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		return controller.UID
	}
	return ""
}

// claimChanged lets through the events by which a VerticalScaler takes or drops its claim on
// a Deployment: what else changes in it does not concern its siblings. A cache that missed
// the deletion sees a scaler that was created anew, and is younger now, as an update.
func claimChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isScaler := e.ObjectOld.(*autoscalingv1beta1.VerticalScaler)
			after, isStill := e.ObjectNew.(*autoscalingv1beta1.VerticalScaler)
			return isScaler && isStill && (before.UID != after.UID ||
				before.Spec.DeploymentName != after.Spec.DeploymentName ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
		},
	}
}

// podOfDeployment lets through what happens to a Deployment's pods, so far as it concerns a
// scaler: of a pod nothing else is cached than what does, see trimPod.
func podOfDeployment() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(obj client.Object) bool { return indexers.DeploymentOfPod(obj) != "" }),
		predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				before, isPod := e.ObjectOld.(*corev1.Pod)
				after, isStill := e.ObjectNew.(*corev1.Pod)
				return isPod && isStill && (before.UID != after.UID ||
					before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
					!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
					!equality.Semantic.DeepEqual(before.Status, after.Status))
			},
		},
	)
}

// horizontalChanged lets through the events by which a HorizontalPodAutoscaler takes or leaves
// a resource of a Deployment: its status changes all the time.
func horizontalChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isHPA := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
			after, isStill := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
			return isHPA && isStill && !equality.Semantic.DeepEqual(before.Spec, after.Spec)
		},
	}
}
