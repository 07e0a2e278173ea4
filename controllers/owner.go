package controllers

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
	"example.com/upright/internal/drift"
	"example.com/upright/internal/rollout"
)

// appliedAnnotation holds a hash of what was last applied, so that a field which is no
// longer desired makes a difference too, and the apply that removes it is made.
const appliedAnnotation = "upright.example.com/applied"

// Reasons of the events that tell of a Deployment.
const (
	eventSynced            = "Synced"
	eventRecovered         = "Recovered"
	eventErrResourceExists = "ErrResourceExists"
)

// deploymentOwner is what the owning controllers have in common: it keeps an object's
// Deployment as desired and publishes what became of it.
type deploymentOwner struct {
	client.Client
	recorder   events.EventRecorder
	fieldOwner client.FieldOwner
	// tellCreated says whether the first Deployment is worth an event, too.
	tellCreated bool
}

// keep runs one pass: it brings the Deployment to desired, finds out what that means for
// the owner, publishes it as the owner's status and returns it.
func (o *deploymentOwner) keep(
	ctx context.Context, owner client.Object, previous examplev1alpha1.DeploymentStatus,
	desired *appsv1ac.DeploymentApplyConfiguration,
) (examplev1alpha1.DeploymentStatus, ctrl.Result, error) {
	deployment, done, err := o.ensure(ctx, owner, desired)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return previous, ctrl.Result{}, nil // The owner is about to be deleted with its namespace.
	}
	if done == updated || done == created && o.tellCreated {
		o.tellSynced(owner, deployment)
	}
	status, refresh := rollout.Status(previous, rollout.Observation{
		Generation: owner.GetGeneration(), Deployment: deployment, Err: err, Now: time.Now(),
	})
	if !equality.Semantic.DeepEqual(previous, status) {
		if statusErr := applyStatus(ctx, o.Client, o.fieldOwner, owner, status); statusErr != nil {
			return status, ctrl.Result{}, errors.Join(err, statusErr)
		}
		o.tellTransition(owner, previous, status)
	}
	return status, ctrl.Result{RequeueAfter: refresh}, retryable(err)
}

// change says what a pass did to the Deployment.
type change int

const (
	unchanged change = iota
	created
	updated
)

// ensure brings the Deployment to desired and returns it as it then is, also where that
// fails: nil, then, where there is none. A Deployment that owner does not control is left
// alone: rollout.NameTakenError.
func (o *deploymentOwner) ensure(
	ctx context.Context, owner client.Object, desired *appsv1ac.DeploymentApplyConfiguration,
) (*appsv1.Deployment, change, error) {
	live, err := o.find(ctx, owner, *desired.Name)
	if err != nil {
		return nil, unchanged, err
	}
	if err := annotateApplied(desired); err != nil {
		return nil, unchanged, err
	}
	done := created
	if live != nil {
		drifted, err := drift.Found(live, desired)
		if err != nil || !drifted || !live.DeletionTimestamp.IsZero() {
			return live, unchanged, err
		}
		done = updated
	}
	if err := o.Apply(ctx, desired, o.fieldOwner, client.ForceOwnership); err != nil {
		return live, unchanged, fmt.Errorf("apply Deployment: %w", err)
	}
	log.FromContext(ctx).V(1).Info("Applied Deployment", "Deployment", *desired.Name)
	applied, err := asDeployment(desired)
	return applied, done, err
}

// find returns the owner's Deployment of the name, nil where the name is free.
func (o *deploymentOwner) find(ctx context.Context, owner client.Object, name string) (*appsv1.Deployment, error) {
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}
	live := &appsv1.Deployment{}
	err := o.Get(ctx, key, live)
	if err == nil {
		return live, checkController(live, owner)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Deployment: %w", err)
	}
	// It bears not our label: it may still be somebody else's, or ours with the label
	// taken away, which the apply puts back.
	other := newDeploymentMetadata()
	if err := o.Get(ctx, key, other); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get Deployment metadata: %w", err)
	}
	return nil, checkController(other, owner)
}

func checkController(deployment metav1.Object, owner client.Object) error {
	if metav1.IsControlledBy(deployment, owner) {
		return nil
	}
	return &rollout.NameTakenError{
		Deployment: deployment.GetName(),
		Controller: metav1.GetControllerOf(deployment),
	}
}

// retryable returns what is worth trying again: not a name that is taken, since the watch
// tells when it is free, and not what the API server refuses until the spec changes.
func retryable(err error) error {
	switch {
	case rollout.IsNameTaken(err):
		return nil
	case rollout.IsRefused(err):
		return reconcile.TerminalError(err)
	default:
		return err
	}
}

// tellTransition records an event when the object became degraded, for another reason than
// before, or ready again after it was degraded.
func (o *deploymentOwner) tellTransition(owner client.Object, previous, status examplev1alpha1.DeploymentStatus) {
	before := meta.FindStatusCondition(previous.Conditions, examplev1alpha1.ConditionDegraded)
	after := meta.FindStatusCondition(status.Conditions, examplev1alpha1.ConditionDegraded)
	wasDegraded := before != nil && before.Status == metav1.ConditionTrue
	switch isDegraded := after.Status == metav1.ConditionTrue; {
	case isDegraded && (!wasDegraded || before.Reason != after.Reason):
		reason := after.Reason
		if reason == examplev1alpha1.ReasonDeploymentNameTaken {
			reason = eventErrResourceExists
		}
		o.recorder.Eventf(owner, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", after.Message)
	case wasDegraded && !isDegraded:
		o.recorder.Eventf(owner, nil, corev1.EventTypeNormal, eventRecovered, "Reconcile", "No longer degraded.")
	}
}

// tellSynced records an event that the Deployment was written.
func (o *deploymentOwner) tellSynced(owner client.Object, deployment *appsv1.Deployment) {
	o.recorder.Eventf(owner, deployment, corev1.EventTypeNormal, eventSynced, "Apply",
		"Deployment %s was brought to what the spec asks.", deployment.Name)
}

// annotateApplied adds the hash of an apply configuration to its annotations.
func annotateApplied(desired *appsv1ac.DeploymentApplyConfiguration) error {
	fields, err := json.Marshal(desired)
	if err != nil {
		return fmt.Errorf("hash the desired Deployment: %w", err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(fields) // A hash never fails to be written to.
	desired.WithAnnotations(map[string]string{appliedAnnotation: strconv.FormatUint(hash.Sum64(), 36)})
	return nil
}

// asDeployment returns the object that an apply filled its configuration with.
func asDeployment(applied *appsv1ac.DeploymentApplyConfiguration) (*appsv1.Deployment, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(applied)
	if err != nil {
		return nil, fmt.Errorf("read the applied Deployment: %w", err)
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, deployment); err != nil {
		return nil, fmt.Errorf("read the applied Deployment: %w", err)
	}
	return deployment, nil
}
