package verticalscaler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// tableWait is the time after which to check again whether a size is in the table. A change of the
// table triggers no reconcile of the scalers, because most of them need none.
const tableWait = time.Second

// rollOut takes the next step of a rollout: it requests one in the status if pods cannot be
// resized in place, and starts it in a later reconcile, when the request is published.
func (r *Reconciler) rollOut(ctx context.Context, s *scope) {
	if s.hasFailed() {
		return
	}
	rollout, err := r.observeRollout(ctx, s)
	if err != nil {
		s.fail(autoscalingv1beta1.ReasonApplyFailed, "Cannot read what decides about a rollout of the Deployment", err)
		return
	}
	step := rollout.Next(s.now)
	s.status.Rollout = step.Status
	switch {
	case rollout.Reason == "":
	case step.Block.Reason != "":
		s.result.replaced(step.Block)
	case step.Request != nil:
		r.requestRollout(ctx, s, step.Request)
	case step.Start:
		r.startRollout(ctx, s)
	default:
		// The size gets into the table after the status is written.
		s.result.replaced(inProgress(tableWait))
	}
}

// inProgress is the block of pods that a rollout replaces.
func inProgress(requeueAfter time.Duration) sizing.Block {
	return sizing.Block{Reason: autoscalingv1beta1.ReasonRolloutInProgress, RequeueAfter: requeueAfter}
}

// observeRollout returns what decides about a rollout.
func (r *Reconciler) observeRollout(ctx context.Context, s *scope) (*sizing.Rollout, error) {
	rollout := &sizing.Rollout{Deployment: s.deployment, Behavior: s.scaler.Spec.Behavior, Last: s.scaler.Status.Rollout}
	if s.scaler.Spec.UpdateMode != autoscalingv1beta1.UpdateModeInPlaceOrRollout || !s.canSizeNewPods() || s.hasFallback() {
		return rollout, nil
	}
	if rollout.Reason = s.result.reasonToReplace(); rollout.Reason == "" {
		rollout.IsSettled = s.result.isSettled()
		return rollout, nil
	}
	policy, err := r.admission.identity(ctx)
	if err != nil {
		return nil, err
	}
	rollout.Cause = sizing.RolloutCause{
		Reason: rollout.Reason, Deployment: s.deployment.UID, Template: s.templateHash, Policy: policy, Sizes: s.status.Sizing,
	}.String()
	rollout.NewestStuck = s.result.newestStuck
	rollout.IsInTable = s.isInTable()
	rollout.Fits = s.fitsNode()
	rollout.DeclaredBy = s.restartedAtOwner.declares
	rollout.History = s.shortestHistory()
	rollout.OOMKilled = len(s.recentlyKilled()) > 0
	return rollout, nil
}

// fitsNode reports whether a node can hold a new pod. If no node is known, one might.
func (s *scope) fitsNode() bool {
	template := &s.deployment.Spec.Template.Spec
	return s.constraints.Nodes.IsEmpty() ||
		s.constraints.Nodes.Fits(template, sizing.NewPodRequests(template, s.status.Sizing, s.constraints.LimitRanges))
}

// shortestHistory returns the usage history of the sized container that has the least of it.
func (s *scope) shortestHistory() time.Duration {
	shortest := time.Duration(-1)
	for i := range s.status.Sizing {
		span := s.historyOf(s.status.Sizing[i].ContainerName)
		if shortest < 0 || span < shortest {
			shortest = span
		}
	}
	return max(shortest, 0)
}

// requestRollout publishes that a rollout is about to start, if not too many are in progress.
func (r *Reconciler) requestRollout(ctx context.Context, s *scope, request *autoscalingv1beta1.RolloutStatus) {
	place, requeueAfter, err := r.queue.enter(ctx, client.ObjectKeyFromObject(s.scaler), s.now)
	if err != nil {
		s.fail(autoscalingv1beta1.ReasonApplyFailed, "Cannot find out which rollouts are in progress", err)
		return
	}
	if place > 0 {
		s.result.replaced(sizing.Block{
			Reason: autoscalingv1beta1.ReasonRolloutQueued, Detail: fmt.Sprintf("place %d in the queue", place), RequeueAfter: requeueAfter,
		})
		return
	}
	s.status.Rollout = request
	s.keepReplacedSizes()
	s.result.replaced(inProgress(tableWait))
}

// startRollout starts the rollout that the published status requests.
func (r *Reconciler) startRollout(ctx context.Context, s *scope) {
	isStarted, err := r.restart(ctx, s)
	// The next reconcile reads the annotation, although the cache may not have the change yet.
	r.targets.forget(client.ObjectKeyFromObject(s.scaler))
	if err != nil {
		s.fail(autoscalingv1beta1.ReasonApplyFailed, "The rollout of the Deployment could not be started", err)
		return
	}
	if isStarted {
		s.status.Rollout.State = autoscalingv1beta1.RolloutStarted
	}
	s.result.replaced(inProgress(tableWait))
}

// restart sets the restart annotation of the pod template, as kubectl rollout restart does. It
// is the only field that Upright writes in a Deployment that it does not own. The value is that
// of the published request, so that a repetition changes nothing. It reports whether the
// annotation is set: the Deployment may have changed, or be gone.
func (r *Reconciler) restart(ctx context.Context, s *scope) (isSet bool, err error) {
	d, rollout := s.deployment, s.status.Rollout
	configuration := appsv1ac.Deployment(d.Name, d.Namespace).
		WithUID(d.UID). // Not another Deployment of the same name.
		WithResourceVersion(d.ResourceVersion).
		WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().
			WithAnnotations(map[string]string{sizing.AnnotationRestartedAt: rollout.RequestedAt.UTC().Format(time.RFC3339)})))
	options := []client.ApplyOption{r.fieldOwner}
	if s.restartedAtOwner.hasSet {
		options = append(options, client.ForceOwnership)
	}
	err = r.uncached.Apply(ctx, configuration, options...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("roll out Deployment %s: %w", d.Name, err)
	}
	r.metrics.rollouts.WithLabelValues(rollout.Reason).Inc()
	r.recorder.Eventf(s.scaler, nil, corev1.EventTypeNormal, "RolledOut", "RollOut",
		"Rolled out Deployment %q because its pods cannot be resized in place (%s). New pods get the size in status.sizing.",
		d.Name, rollout.Reason)
	log.FromContext(ctx).Info("Rolled out a Deployment", "Deployment", d.Name, "reason", rollout.Reason)
	return true, nil
}
