package sizetable

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// fieldOwner is the field owner of the tables.
const fieldOwner client.FieldOwner = "upright-sizetable"

// collectTime is how long changes of a namespace's scalers are collected before a write.
const collectTime = 100 * time.Millisecond

// AddToManager adds the controller of SizeTables to the manager. It calls changed with the scalers
// whose sizes no longer fit into the table, or fit again.
func AddToManager(
	mgr ctrl.Manager, options controller.Options, changed func(context.Context, *autoscalingv1beta1.VerticalScaler) error,
) (*Reconciler, error) {
	reconciler := &Reconciler{
		Client: mgr.GetClient(), fieldOwner: fieldOwner, changed: changed,
		written: map[string]time.Time{}, omitted: map[string]map[string]bool{}, failed: map[string]int{},
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("sizetable").
		For(&autoscalingv1beta1.SizeTable{}).
		Watches(&autoscalingv1beta1.VerticalScaler{}, tableOfNamespace(), builder.WithPredicates(sizingChanged())).
		WithOptions(options).
		Complete(reconciler)
	if err != nil {
		return nil, fmt.Errorf("add the controller of SizeTables: %w", err)
	}
	return reconciler, nil
}

// tableOfNamespace maps a VerticalScaler to the SizeTable of its namespace, after collectTime.
func tableOfNamespace() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(obj client.Object, q queue) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{
			Namespace: obj.GetNamespace(), Name: autoscalingv1beta1.SizeTableName,
		}}, collectTime)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

// sizingChanged accepts the events of a VerticalScaler that can change the table.
func sizingChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			previous, wasScaler := e.ObjectOld.(*autoscalingv1beta1.VerticalScaler)
			scaler, isScaler := e.ObjectNew.(*autoscalingv1beta1.VerticalScaler)
			return wasScaler && isScaler && (previous.UID != scaler.UID ||
				previous.Generation != scaler.Generation ||
				previous.DeletionTimestamp.IsZero() != scaler.DeletionTimestamp.IsZero() ||
				previous.Status.DeploymentName != scaler.Status.DeploymentName ||
				!equality.Semantic.DeepEqual(previous.Status.Sizing, scaler.Status.Sizing))
		},
	}
}
