// Package verticalscaler reconciles VerticalScalers: it sizes the pods of Deployments that
// Upright does not own.
package verticalscaler

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/indexers"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/sizing"
)

// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling.example.com,resources=verticalscalers/status,verbs=patch
// +kubebuilder:rbac:groups=core,resources=pods;nodes;limitranges,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
// +kubebuilder:rbac:groups=metrics.k8s.io,resources=pods,verbs=list

// Reconciler sizes the pods of the Deployment that a VerticalScaler names. The only field of
// that Deployment that it writes is the annotation that starts a rollout.
type Reconciler struct {
	client.Client
	uncached   client.Client
	fieldOwner client.FieldOwner
	recorder   events.EventRecorder
	metrics    *metrics

	recommender *recommendation.Recommender
	targets     *targets
	tables      *sizetable.Reconciler
	creations   *creations
	admission   *admission
	resizer     *resizer
	queue       *rolloutQueue
}

// Reconcile observes a VerticalScaler's target, recommends sizes, decides which of them apply,
// applies them to the pods, and publishes the status, also if a step fails.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scaler := &autoscalingv1beta1.VerticalScaler{}
	if err := r.Get(ctx, req.NamespacedName, scaler); apierrors.IsNotFound(err) {
		r.targets.forget(req.NamespacedName)
		r.creations.forget(req.NamespacedName)
		r.queue.forget(req.NamespacedName)
		r.resizer.attempts.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get the VerticalScaler: %w", err)
	}
	if !scaler.DeletionTimestamp.IsZero() {
		r.queue.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if scaler.Spec.DecodeError != "" {
		return r.reportInvalid(ctx, scaler)
	}
	s := newScope(scaler, time.Now())
	r.observe(ctx, s)
	r.recommend(ctx, s)
	r.size(s)
	r.apply(ctx, s)
	return r.publish(ctx, s)
}

// observe reads the target, its pods, and what else decides about their size.
func (r *Reconciler) observe(ctx context.Context, s *scope) {
	for _, read := range []func(context.Context, *scope) error{
		r.observeTarget, r.observeOlder, r.observePods, r.observeConstraints, r.observeHPAs, r.observeDeployment, r.observeNewPods,
	} {
		if err := read(ctx, s); err != nil {
			s.fail(autoscalingv1beta1.ReasonObserveFailed, "Cannot read the objects that the VerticalScaler depends on", err)
			return
		}
	}
}

func (r *Reconciler) observeTarget(ctx context.Context, s *scope) error {
	target := cache.NewDeploymentMetadata()
	err := r.Get(ctx, client.ObjectKey{Namespace: s.scaler.Namespace, Name: s.scaler.Spec.DeploymentName}, target)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get the target's metadata: %w", err)
	}
	s.target = target
	return nil
}

// observeOlder finds the oldest of the other scalers of the target, if it is older than this one.
func (r *Reconciler) observeOlder(ctx context.Context, s *scope) error {
	var siblings autoscalingv1beta1.VerticalScalerList
	if err := r.List(ctx, &siblings,
		client.InNamespace(s.scaler.Namespace),
		client.MatchingFields{indexers.VerticalScalerDeploymentName: s.scaler.Spec.DeploymentName},
		client.UnsafeDisableDeepCopy,            // Read-only.
		client.DisableReadYourWritesConsistency, // The controller never writes age or spec.
	); err != nil {
		return fmt.Errorf("list the VerticalScalers of the Deployment: %w", err)
	}
	oldest := s.scaler
	for i := range siblings.Items {
		sibling := &siblings.Items[i]
		if sibling.DeletionTimestamp.IsZero() && sibling.IsOlderThan(oldest) {
			oldest = sibling
		}
	}
	if oldest.UID != s.scaler.UID {
		s.older = oldest
	}
	return nil
}

func (r *Reconciler) observePods(ctx context.Context, s *scope) (err error) {
	s.pods, err = recommendation.TargetPods(ctx, r.Client, s.scaler)
	return err
}

func (r *Reconciler) observeConstraints(ctx context.Context, s *scope) (err error) {
	s.constraints, err = r.recommender.Constraints(ctx, s.scaler.Namespace, s.pods)
	return err
}

// observeHPAs finds the HPAs that scale the target, directly or through its controller.
func (r *Reconciler) observeHPAs(ctx context.Context, s *scope) error {
	if s.target == nil {
		return nil
	}
	var scaling []autoscalingv2.HorizontalPodAutoscaler
	for _, target := range indexers.ScaleTargetsOfDeployment(s.target) {
		var hpas autoscalingv2.HorizontalPodAutoscalerList
		if err := r.List(ctx, &hpas, client.InNamespace(s.scaler.Namespace),
			client.MatchingFields{indexers.HorizontalPodAutoscalerTarget: target},
			client.UnsafeDisableDeepCopy,
		); err != nil {
			return fmt.Errorf("list the HorizontalPodAutoscalers of the Deployment: %w", err)
		}
		scaling = append(scaling, hpas.Items...)
	}
	s.scaledByHPA = sizing.ScaledByHPA(scaling)
	return nil
}

// observeDeployment reads the whole target. It sends a request only if the target has changed and
// a size can be recommended for its pods.
func (r *Reconciler) observeDeployment(ctx context.Context, s *scope) (err error) {
	if !s.appliesSizes() || len(s.pods) == 0 && len(s.scaler.Status.Recommendations) == 0 {
		return nil
	}
	if s.policyMissing, err = r.admission.isMissing(ctx); err != nil {
		return err
	}
	read, err := r.targets.get(ctx, client.ObjectKeyFromObject(s.scaler), s.target)
	if read != nil {
		s.deployment, s.templateHash, s.restartedAtOwner = read.Deployment, read.templateHash, read.restartedAtOwner
	}
	return err
}

// recommend learns from the pods and updates the recommendations in the status.
func (r *Reconciler) recommend(ctx context.Context, s *scope) {
	if s.hasFailed() {
		return
	}
	if err := r.learn(ctx, s); err != nil {
		s.fail(autoscalingv1beta1.ReasonRecommendFailed, "Cannot compute a recommendation", err)
		return
	}
	s.unavailable = r.recommender.Unavailable(s.scaler)
	s.incomplete = r.recommender.Incomplete(s.scaler, s.workload)
	s.recommendation = r.recommender.Recommend(s.scaler, s.workload, s.deployment, s.pods, s.constraints)
	switch {
	case s.older != nil:
		s.status.Recommendations = nil
	case s.scaler.Spec.Suspend:
	case sizing.Changed(s.status.Recommendations, s.recommendation.Recommendations):
		s.status.Recommendations = s.recommendation.Recommendations
	}
	s.status.PodTarget = sizing.PodTarget(s.status.Recommendations)
	s.recordTargets()
}

// learn adds the OOM kills of the target's pods to its history.
func (r *Reconciler) learn(ctx context.Context, s *scope) error {
	if err := r.recommender.WaitForHistory(ctx); err != nil {
		return err
	}
	s.workload = r.recommender.History(s.scaler)
	added := r.recommender.LearnOOMKills(s.scaler, s.workload, s.deployment, s.pods, s.now)
	if s.older == nil { // All scalers of the Deployment learn the kill; the acting one counts it.
		r.recommender.CountOOMKills(added)
	}
	return nil
}

// recordTargets records the published targets. The history of targets shows how long the pods'
// requests have differed from them.
func (s *scope) recordTargets() {
	for i := range s.status.Recommendations {
		name, target := s.status.Recommendations[i].ContainerName, s.status.Recommendations[i].Target
		s.workload.RecordTarget(name, corev1.ResourceCPU, target.Cpu().MilliValue(), s.now)
		s.workload.RecordTarget(name, corev1.ResourceMemory, target.Memory().Value(), s.now)
	}
}

// size decides what new pods get. From here on the status reflects the current generation.
func (*Reconciler) size(s *scope) {
	if s.hasFailed() {
		return
	}
	s.setTrial()
	s.setSizing()
	s.status.ObservedGeneration = s.scaler.Generation
}

// apply resizes the running pods, or starts a rollout if they cannot be resized.
func (r *Reconciler) apply(ctx context.Context, s *scope) {
	defer r.queue.update(s)
	if s.hasFailed() || s.deployment == nil {
		return
	}
	r.resizer.restoreUnschedulable(ctx, s)
	switch {
	case s.hasFallback():
		r.resizer.resizeToTemplate(ctx, s)
	case s.scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeInitial:
		r.resizer.resize(ctx, s)
	}
	r.rollOut(ctx, s)
	s.requeueForFallback()
	if s.waitsForTable() {
		s.result.requeueIn(tableWait)
	}
}

// publish derives the conditions, writes the status if it differs, and returns the error of the
// reconcile.
func (r *Reconciler) publish(ctx context.Context, s *scope) (ctrl.Result, error) {
	s.setConditions()
	if err := r.writeStatus(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.result.requeueAfter()}, nil
}
