package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/internal/histories"
	"example.com/upright/internal/sizing"
	"example.com/upright/mappers"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers/status,verbs=patch
// +kubebuilder:rbac:groups=core,resources=pods;nodes;limitranges,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
// +kubebuilder:rbac:groups=metrics.k8s.io,resources=pods,verbs=list

// VerticalScalerReconciler finds, for each VerticalScaler, the Deployment that it names, and
// says what its pods should request and has them get it. Of that Deployment it writes at most
// that its pods are to be replaced.
type VerticalScalerReconciler struct {
	client.Client
	recorder   events.EventRecorder
	fieldOwner client.FieldOwner

	uncached    client.Client
	targets     *targetDeployments
	admission   *admission
	resizer     *resizer
	checkpoints *Checkpointer
	usage       *UsageCollector
	past        *Backfiller
}

// Reconcile finds a VerticalScaler's target and its rivals for it, learns what the target's
// pods show, and says in the status what they should request.
func (r *VerticalScalerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scaler := &autoscalingv1beta1.VerticalScaler{}
	if err := r.Get(ctx, req.NamespacedName, scaler); apierrors.IsNotFound(err) {
		r.targets.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
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
	if err := r.awaitKnowledge(ctx); err != nil {
		return ctrl.Result{}, err
	}
	record := r.usage.record(scaler)
	advice, err := r.learn(ctx, scaler, record, rival == nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	found := findings{target: target, rival: rival, advice: advice, unavailable: r.usage.unavailability()}
	if err := r.findSizing(ctx, scaler, &found); err != nil {
		return ctrl.Result{}, err
	}
	now := time.Now()
	status := newStatus(scaler, found, now)
	remember(record, status.Recommendations, now)
	found.resized, err = r.resize(ctx, scaler, &status, record, found, now)
	found.resized.lookAgainIn(patience(found, now))
	setConditions(scaler, &status, found, now)
	return ctrl.Result{RequeueAfter: found.resized.retryAfter()}, errors.Join(err, r.publish(ctx, scaler, status))
}

// resize gives the target's pods their size, where the scaler may.
func (r *VerticalScalerReconciler) resize(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, status *autoscalingv1beta1.VerticalScalerStatus,
	record *histories.Record, found findings, now time.Time,
) (*resizes, error) {
	switch {
	case found.deployment == nil:
		return newResizes(), nil
	case isInForce(status.Fallback, now):
		return r.resizer.restore(ctx, scaler, status.Fallback, found, now)
	case scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeInitial:
		return newResizes(), nil
	}
	resized, err := r.resizer.resize(ctx, scaler, status, record, found.pods, now)
	stuck, because := resized.stuck()
	if err != nil || stuck == 0 || found.policyMissing || scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeInPlaceOrRollout {
		return resized, err
	}
	// What is published, new pods get.
	isPublished := equality.Semantic.DeepEqual(scaler.Status.Sizing, status.Sizing) && scaler.Status.DeploymentName == status.DeploymentName
	reason, again, err := r.rollOut(ctx, scaler, found.deployment, because, isPublished, now)
	resized.replace(reason, again)
	return resized, err
}

// remember has a record know the targets, by which it can tell for how long pods have been off.
func remember(record *histories.Record, recommended []autoscalingv1beta1.ContainerRecommendation, now time.Time) {
	for i := range recommended {
		name, target := recommended[i].ContainerName, recommended[i].Target
		record.Tell(name, corev1.ResourceCPU, target.Cpu().MilliValue(), now)
		record.Tell(name, corev1.ResourceMemory, target.Memory().Value(), now)
	}
}

// awaitKnowledge waits until a manager that has just become the leader knows what the one
// before it knew, and what is used now. It does so once.
func (r *VerticalScalerReconciler) awaitKnowledge(ctx context.Context) error {
	if err := r.checkpoints.restore(ctx); err != nil {
		return err
	}
	return r.usage.waitReady(ctx)
}

// learn learns from the target's pods and returns what is to be said of them. Of several scalers
// that learn the same, one acts, and counts it in the metrics.
func (r *VerticalScalerReconciler) learn(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, record *histories.Record, acts bool,
) (advice, error) {
	pods, err := podsOf(ctx, r.Client, scaler)
	if err != nil {
		return advice{}, err
	}
	if !scaler.Spec.Suspend {
		r.past.request(client.ObjectKeyFromObject(scaler), record)
	}
	counted, err := learnKills(record, pods, scaler.Spec.Suspend)
	if acts {
		r.usage.metrics.oomKills.Add(float64(counted))
	}
	if err != nil {
		return advice{}, err
	}
	return r.usage.advise(ctx, scaler, record, pods)
}

// findSizing adds to the findings what sizing the target's pods takes, where that is to be done.
func (r *VerticalScalerReconciler) findSizing(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, found *findings,
) (err error) {
	if found.target == nil || found.rival != nil || scaler.Spec.Suspend || len(found.recommendations) == 0 ||
		scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeOff {
		return nil
	}
	if found.policyMissing, err = r.admission.missing(ctx); err != nil {
		return err
	}
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := r.List(ctx, &hpas, client.InNamespace(scaler.Namespace),
		client.MatchingFields{indexers.HorizontalPodAutoscalerDeploymentName: scaler.Spec.DeploymentName},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return fmt.Errorf("list the HorizontalPodAutoscalers of the Deployment: %w", err)
	}
	found.horizontal = sizing.Horizontal(hpas.Items)
	found.deployment, err = r.targets.get(ctx, client.ObjectKeyFromObject(scaler), found.target)
	return err
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
		return client.IgnoreNotFound(err) // It was deleted meanwhile.
	}
	r.tellTransitions(scaler, status)
	return nil
}

func (r *VerticalScalerReconciler) setup(mgr ctrl.Manager, with shared) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&autoscalingv1beta1.VerticalScaler{}).
		Watches(newDeploymentMetadata(), mappers.DeploymentToVerticalScalers(mgr.GetCache(), with.mapFailures),
			builder.OnlyMetadata).
		Watches(&autoscalingv1beta1.VerticalScaler{}, mappers.VerticalScalerToSiblings(mgr.GetCache(), with.mapFailures),
			builder.WithPredicates(claimChanged())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, mappers.HorizontalPodAutoscalerToVerticalScalers(mgr.GetCache(), with.mapFailures),
			builder.WithPredicates(horizontalChanged())).
		Watches(&corev1.LimitRange{}, mappers.LimitRangeToVerticalScalers(mgr.GetCache(), with.mapFailures)).
		Watches(&corev1.Pod{}, mappers.PodToVerticalScalers(mgr.GetCache(), with.mapFailures),
			builder.WithPredicates(podOfDeployment())).
		WatchesRawSource(source.Channel(r.usage.wake, &handler.EnqueueRequestForObject{})).
		WithOptions(with.controllerOptions()).
		Complete(r)
}
