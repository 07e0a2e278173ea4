package owned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/ownedstatus"
	"example.com/upright/internal/ssa"
)

// appliedAnnotation holds a hash of the configuration that was last applied. It makes a field
// that is no longer desired count as a difference, so that an apply removes it.
const appliedAnnotation = "upright.example.com/applied"

// Reasons of events about a Deployment.
const (
	eventSynced            = "Synced"
	eventRecovered         = "Recovered"
	eventErrResourceExists = "ErrResourceExists"
)

// deploymentReconciler is what the three controllers share: it keeps an owner's Deployment in
// the desired state and publishes the owner's status.
type deploymentReconciler struct {
	client.Client
	recorder   events.EventRecorder
	fieldOwner client.FieldOwner
	// recordCreation makes the creation of the Deployment an event. An event is one more write
	// for each object.
	recordCreation bool
}

// reconcileDeployment brings the Deployment to its desired state, publishes the owner's status,
// and returns that status.
func (r *deploymentReconciler) reconcileDeployment(
	ctx context.Context, owner client.Object, previous examplev1alpha1.DeploymentStatus,
	desired *appsv1ac.DeploymentApplyConfiguration,
) (examplev1alpha1.DeploymentStatus, ctrl.Result, error) {
	deployment, done, err := r.ensure(ctx, owner, desired)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return previous, ctrl.Result{}, nil // The owner is deleted with its namespace.
	}
	if apierrors.IsConflict(err) {
		return previous, ctrl.Result{}, err // The cache is outdated, so there is nothing to report yet.
	}
	if done == updated || done == created && r.recordCreation {
		r.recordSynced(owner, deployment)
	}
	status, refresh := ownedstatus.Status(previous, ownedstatus.Observation{
		Generation: owner.GetGeneration(), Deployment: deployment, Err: err, Now: time.Now(),
	})
	if statusErr := r.writeStatus(ctx, owner, previous, status); statusErr != nil {
		return status, ctrl.Result{}, errors.Join(err, statusErr)
	}
	return status, ctrl.Result{RequeueAfter: refresh}, retryable(err)
}

// writeStatus writes the status of an owner if it differs, and records an event for its transition.
func (r *deploymentReconciler) writeStatus(
	ctx context.Context, owner client.Object, previous, status examplev1alpha1.DeploymentStatus,
) error {
	if equality.Semantic.DeepEqual(previous, status) {
		return nil
	}
	if err := ssa.ApplyStatus(ctx, r.Client, r.fieldOwner, owner, status); err != nil {
		return err
	}
	r.recordTransition(owner, previous, status)
	return nil
}

// change is what a reconcile did to the Deployment.
type change int

const (
	unchanged change = iota
	created
	updated
)

// ensure brings the Deployment to its desired state and returns it. If that fails, it returns
// the observed Deployment, or nil if there is none. It does not touch a Deployment that the
// owner does not control and returns an ownedstatus.NameTakenError instead.
func (r *deploymentReconciler) ensure(
	ctx context.Context, owner client.Object, desired *appsv1ac.DeploymentApplyConfiguration,
) (*appsv1.Deployment, change, error) {
	live, seen, err := r.find(ctx, owner, *desired.Name)
	if err != nil {
		return nil, unchanged, err
	}
	if err := annotateApplied(desired); err != nil {
		return nil, unchanged, err
	}
	done := created
	if seen != nil {
		done = updated
	}
	if live != nil {
		drifted, err := ssa.WouldChange(live, desired)
		if err != nil || !drifted || !live.DeletionTimestamp.IsZero() {
			return live, unchanged, err
		}
	}
	if err := r.Apply(ctx, withPrecondition(desired, seen), r.fieldOwner, client.ForceOwnership); err != nil {
		return live, unchanged, fmt.Errorf("apply Deployment: %w", err)
	}
	log.FromContext(ctx).V(1).Info("Applied Deployment", "Deployment", *desired.Name)
	applied, err := asDeployment(desired)
	return applied, done, err
}

// find returns the owner's Deployment of the given name. If the cache has only its metadata, live
// is nil. If the name is free, both are nil.
func (r *deploymentReconciler) find(
	ctx context.Context, owner client.Object, name string,
) (live *appsv1.Deployment, seen metav1.Object, err error) {
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}
	live = &appsv1.Deployment{}
	err = r.Get(ctx, key, live)
	if err == nil {
		return live, live, checkController(live, owner)
	}
	if !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("get Deployment: %w", err)
	}
	// No Deployment of this name has our label. It can still exist: somebody else owns it, or
	// our label was removed and the apply restores it.
	other := cache.NewDeploymentMetadata()
	if err := r.Get(ctx, key, other); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("get Deployment metadata: %w", err)
	}
	return nil, other, checkController(other, owner)
}

func checkController(deployment metav1.Object, owner client.Object) error {
	if metav1.IsControlledBy(deployment, owner) {
		return nil
	}
	return &ownedstatus.NameTakenError{
		Deployment: deployment.GetName(),
		Controller: metav1.GetControllerOf(deployment),
	}
}

// retryable returns the error to retry. A name that is taken needs no retry because the watch
// delivers when it becomes free. A Deployment that the API server rejects as invalid needs
// another spec.
func retryable(err error) error {
	switch {
	case ownedstatus.IsNameTaken(err):
		return nil
	case ownedstatus.IsRefused(err):
		return reconcile.TerminalError(err)
	default:
		return err
	}
}

// recordTransition records an event when the owner becomes degraded, when the reason changes,
// and when the owner recovers.
func (r *deploymentReconciler) recordTransition(owner client.Object, previous, status examplev1alpha1.DeploymentStatus) {
	before := meta.FindStatusCondition(previous.Conditions, examplev1alpha1.ConditionDegraded)
	after := meta.FindStatusCondition(status.Conditions, examplev1alpha1.ConditionDegraded)
	wasDegraded := before != nil && before.Status == metav1.ConditionTrue
	switch isDegraded := after.Status == metav1.ConditionTrue; {
	case isDegraded && (!wasDegraded || before.Reason != after.Reason):
		reason := after.Reason
		if reason == examplev1alpha1.ReasonDeploymentNameTaken {
			reason = eventErrResourceExists
		}
		r.recorder.Eventf(owner, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", after.Message)
	case wasDegraded && !isDegraded:
		r.recorder.Eventf(owner, nil, corev1.EventTypeNormal, eventRecovered, "Reconcile", "No longer degraded.")
	}
}

// recordSynced records an event for a Deployment that was applied.
func (r *deploymentReconciler) recordSynced(owner client.Object, deployment *appsv1.Deployment) {
	r.recorder.Eventf(owner, deployment, corev1.EventTypeNormal, eventSynced, "Apply",
		"Applied Deployment %s.", deployment.Name)
}

// annotateApplied adds the hash of an apply configuration to its annotations.
func annotateApplied(desired *appsv1ac.DeploymentApplyConfiguration) error {
	fields, err := json.Marshal(desired)
	if err != nil {
		return fmt.Errorf("hash the desired Deployment: %w", err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(fields) // Writing to a hash never fails.
	desired.WithAnnotations(map[string]string{appliedAnnotation: strconv.FormatUint(hash.Sum64(), 36)})
	return nil
}

// asDeployment returns the Deployment that an apply has written back into its configuration.
func asDeployment(applied *appsv1ac.DeploymentApplyConfiguration) (*appsv1.Deployment, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(applied)
	if err != nil {
		return nil, fmt.Errorf("convert the applied Deployment: %w", err)
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, deployment); err != nil {
		return nil, fmt.Errorf("convert the applied Deployment: %w", err)
	}
	return deployment, nil
}
