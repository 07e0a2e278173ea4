package owned

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ownerChanged accepts the events of an owner, except the changes of its status alone. A write of
// the status would trigger a reconcile that does not wait for the backoff. A cache that missed a
// deletion reports a re-created owner as an update.
func ownerChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
				!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
	}
}

// controllerChanged accepts the events after which a Deployment's name can be free or taken.
// Other changes of a Deployment concern only its controller.
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
