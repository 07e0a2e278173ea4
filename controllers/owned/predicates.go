package owned

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

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
