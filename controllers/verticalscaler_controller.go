package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/mappers"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers/status,verbs=patch

// VerticalScalerReconciler finds, for each VerticalScaler, the Deployment that it names. It
// never writes to that Deployment.
type VerticalScalerReconciler struct {
	client.Client
	recorder   events.EventRecorder
	fieldOwner client.FieldOwner
}

// Reconcile finds a VerticalScaler's target and its rivals for it, and says so in its status.
func (r *VerticalScalerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scaler := &autoscalingv1beta1.VerticalScaler{}
	if err := r.Get(ctx, req.NamespacedName, scaler); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !scaler.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	target, err := r.findTarget(ctx, scaler)
	if err != nil {
		return ctrl.Result{}, err
	}
	rival, err := r.findOlder(ctx, scaler)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.publish(ctx, scaler, scalerStatus(scaler, target, rival, time.Now()))
}

// findTarget returns the metadata of the Deployment that the scaler names, nil where there is none.
func (r *VerticalScalerReconciler) findTarget(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler,
) (*metav1.PartialObjectMetadata, error) {
	target := newDeploymentMetadata()
	key := client.ObjectKey{Namespace: scaler.Namespace, Name: scaler.Spec.DeploymentName}
	err := r.Get(ctx, key, target)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the target's metadata: %w", err)
	}
	return target, nil
}

// findOlder returns the oldest of the other scalers that name the same Deployment, where it
// is older than this one, else nil.
func (r *VerticalScalerReconciler) findOlder(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler,
) (*autoscalingv1beta1.VerticalScaler, error) {
	var siblings autoscalingv1beta1.VerticalScalerList
	if err := r.List(ctx, &siblings,
		client.InNamespace(scaler.Namespace),
		client.MatchingFields{indexers.VerticalScalerDeploymentName: scaler.Spec.DeploymentName},
		client.UnsafeDisableDeepCopy,            // Nothing read here is changed.
		client.DisableReadYourWritesConsistency, // Age and spec are never written by us.
	); err != nil {
		return nil, fmt.Errorf("list the scalers of the Deployment: %w", err)
	}
	oldest := scaler
	for i := range siblings.Items {
		sibling := &siblings.Items[i]
		if sibling.DeletionTimestamp.IsZero() && older(sibling, oldest) {
			oldest = sibling
		}
	}
	if oldest.UID == scaler.UID {
		return nil, nil
	}
	return oldest, nil
}

// older reports whether a was created before b; the name decides between two of one second.
func older(a, b *autoscalingv1beta1.VerticalScaler) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// publish writes the status where it differs, and tells of transitions in events.
func (r *VerticalScalerReconciler) publish(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, status autoscalingv1beta1.VerticalScalerStatus,
) error {
	if equality.Semantic.DeepEqual(scaler.Status, status) {
		return nil
	}
	if err := applyStatus(ctx, r.Client, r.fieldOwner, scaler, status); err != nil {
		return err
	}
	r.tellTransition(scaler, status)
	return nil
}

// tellTransition records an event when the reason of Ready has changed.
func (r *VerticalScalerReconciler) tellTransition(
	scaler *autoscalingv1beta1.VerticalScaler, status autoscalingv1beta1.VerticalScalerStatus,
) {
	before := meta.FindStatusCondition(scaler.Status.Conditions, autoscalingv1beta1.ConditionReady)
	after := meta.FindStatusCondition(status.Conditions, autoscalingv1beta1.ConditionReady)
	if before != nil && before.Reason == after.Reason {
		return
	}
	eventType := corev1.EventTypeNormal
	if after.Reason == autoscalingv1beta1.ReasonConflicted {
		eventType = corev1.EventTypeWarning
	}
	r.recorder.Eventf(scaler, nil, eventType, after.Reason, "FindTarget", "%s", after.Message)
}

func (r *VerticalScalerReconciler) setup(mgr ctrl.Manager, with shared) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&autoscalingv1beta1.VerticalScaler{}).
		Watches(newDeploymentMetadata(), mappers.DeploymentToVerticalScalers(mgr.GetCache(), with.mapFailures),
			builder.OnlyMetadata).
		Watches(&autoscalingv1beta1.VerticalScaler{}, mappers.VerticalScalerToSiblings(mgr.GetCache(), with.mapFailures),
			builder.WithPredicates(claimChanged())).
		WithOptions(with.controllerOptions()).
		Complete(r)
}
