package indexers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodControllerKind indexes the pods of DaemonSets by KindDaemonSet. Other pods are not in it.
const PodControllerKind = "metadata.ownerReferences.controllerKind"

// KindDaemonSet is the only value of the index PodControllerKind.
const KindDaemonSet = "DaemonSet"

// podControllerKind omits pods that have ended: they take nothing from their node.
func podControllerKind(obj client.Object) []string {
	pod, isPod := obj.(*corev1.Pod)
	if controller := metav1.GetControllerOfNoCopy(obj); controller == nil || controller.Kind != KindDaemonSet ||
		!isPod || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return []string{KindDaemonSet}
}
