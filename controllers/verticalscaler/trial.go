package verticalscaler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

const (
	// defaultTrial is the API's default of spec.behavior.trialSeconds.
	defaultTrial = time.Hour
	// revertTime is how long sizes are not lowered again after a revert. Each revert that soon
	// follows another is twice as long, up to maxRevertTime.
	revertTime    = 24 * time.Hour
	maxRevertTime = 7 * 24 * time.Hour
	// setbackShare is the number of pods per pod with a setback that make it a problem of the size:
	// one of ten or fewer pods, ten of a hundred.
	setbackShare = 10
)

// setTrial keeps the last known good sizes in the status. It starts a trial when the pods' sizes
// change, ends it when the pods have run well for long enough, and starts a revert if they do worse
// after their size was lowered.
func (s *scope) setTrial() {
	if !s.appliesSizes() {
		if s.target != nil {
			s.status.LastKnownGood, s.status.Trial, s.status.Revert = nil, nil, nil
		}
		return
	}
	if s.deployment == nil {
		return
	}
	s.forgetRevert()
	running := s.runningLatest()
	if len(running) == 0 || len(s.status.Recommendations) == 0 {
		return
	}
	least := sizing.Least(running)
	if len(least) == 0 {
		return // The pods have no requests and no limits.
	}
	switch known, trial := s.status.LastKnownGood, s.status.Trial; {
	case known != nil && equality.Semantic.DeepEqual(known.Sizes, least):
		s.status.Trial = nil
		return
	case trial == nil || !equality.Semantic.DeepEqual(trial.Sizes, least):
		s.status.Trial = &autoscalingv1beta1.ObservedSize{Sizes: least, Since: metav1.NewTime(s.now).Rfc3339Copy()}
	}
	if sizing.IsLowered(&s.scaler.Spec, least, s.previousSizes()) && !s.isPinned() {
		if !s.isReverted() {
			s.revertAfterSetback(running)
		}
		if s.isReverted() {
			return // Pods get the previous sizes again, so these stay the last known good ones.
		}
	}
	s.endTrial(running)
}

// runningLatest returns the running pods of the newest template of which a pod runs. A rollout whose
// pods cannot start does not end the observation of the pods that it was to replace.
func (s *scope) runningLatest() []*corev1.Pod {
	running := s.runningPods()
	if len(running) == 0 {
		return nil
	}
	newest := slices.MaxFunc(running, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return slices.DeleteFunc(slices.Clone(running), func(pod *corev1.Pod) bool {
		return pods.TemplateHash(pod) != pods.TemplateHash(newest)
	})
}

// previousSizes returns the sizes that pods get again in a revert: the last known good ones, and those
// of the template for containers of which none are known.
func (s *scope) previousSizes() []autoscalingv1beta1.ContainerSizing {
	previous := sizing.OfTemplate(&s.deployment.Spec.Template.Spec, s.constraints.LimitRanges)
	if known := s.status.LastKnownGood; known != nil {
		previous = slices.DeleteFunc(previous, func(own autoscalingv1beta1.ContainerSizing) bool {
			return sizing.SizeOf(known.Sizes, own.ContainerName) != nil
		})
		previous = append(previous, known.Sizes...)
	}
	return previous
}

// endTrial makes the sizes of a trial the last known good ones when all pods have run well with
// them for long enough.
func (s *scope) endTrial(running []*corev1.Pod) {
	trial := s.status.Trial
	if trial == nil {
		return
	}
	start := trial.Since.Time
	for _, pod := range running {
		if !pods.IsReady(pod) {
			return // The pod's next event triggers a reconcile.
		}
		if setback := pods.SetbackSince(pod, start, s.now); setback != nil {
			start = setback.At
		}
	}
	if left := s.trialTime() - s.now.Sub(start); left > 0 {
		s.result.requeueIn(left)
		return
	}
	s.setLastKnownGood(trial.Sizes)
}

// setLastKnownGood makes sizes the last known good ones. They are no longer on trial.
func (s *scope) setLastKnownGood(sizes []autoscalingv1beta1.ContainerSizing) {
	s.status.LastKnownGood = &autoscalingv1beta1.ObservedSize{Sizes: sizes, Since: metav1.NewTime(s.now).Rfc3339Copy()}
	s.status.Trial = nil
}

// keepReplacedSizes makes the sizes of ready pods the last known good ones before a rollout replaces
// the pods, if no others are known. If new pods cannot be created or scheduled with their size,
// they get no less than the pods that they replace. Sizes that are being reverted are not good ones.
func (s *scope) keepReplacedSizes() {
	running := s.runningLatest()
	least := sizing.Least(running)
	if s.status.LastKnownGood != nil || s.isReverted() || len(least) == 0 ||
		slices.ContainsFunc(running, func(pod *corev1.Pod) bool { return !pods.IsReady(pod) }) {
		return
	}
	s.setLastKnownGood(least)
}

func (s *scope) trialTime() time.Duration {
	if behavior := s.scaler.Spec.Behavior; behavior != nil && behavior.TrialSeconds != nil {
		return time.Duration(*behavior.TrialSeconds) * time.Second
	}
	return defaultTrial
}

// revertAfterSetback starts a revert if enough pods have had a setback since the trial began. An
// OOM kill of one pod is enough.
func (s *scope) revertAfterSetback(running []*corev1.Pod) {
	var worst *pods.Setback
	var of *corev1.Pod
	count := 0
	for _, pod := range running {
		s.result.requeueIn(pods.NotReadyGraceLeft(pod, s.status.Trial.Since.Time, s.now))
		setback := s.setbackOf(pod)
		if setback == nil {
			continue
		}
		count++
		if worst == nil || setback.Reason == pods.SetbackOOMKilled && worst.Reason != pods.SetbackOOMKilled {
			worst, of = setback, pod
		}
	}
	if worst == nil || worst.Reason != pods.SetbackOOMKilled && count*setbackShare < len(running) {
		return
	}
	var previous pause
	if revert := s.status.Revert; revert != nil {
		previous = pauseBetween(revert.Since, revert.Until)
	}
	since, length := metav1.NewTime(s.now).Rfc3339Copy(), previous.next(s.now, revertTime, maxRevertTime).length
	s.status.Revert = &autoscalingv1beta1.Revert{
		Reason: worst.Reason, Message: describeSetback(worst, of.Name), Since: since, Until: metav1.NewTime(since.Add(length)),
	}
}

// setbackOf returns the setback of a pod on trial, or nil. A trial lasts for as long as one of many
// pods restarts now and then. So terminations count only for the time of a trial: others would add up.
func (s *scope) setbackOf(pod *corev1.Pod) *pods.Setback {
	begin := s.status.Trial.Since.Time
	recent := s.now.Add(-s.trialTime())
	if recent.Before(begin) {
		recent = begin
	}
	if setback := pods.SetbackSince(pod, recent, s.now); setback != nil {
		return setback
	}
	return pods.NotReadySince(pod, begin, s.now)
}

// describeSetback describes what happened to a pod.
func describeSetback(setback *pods.Setback, pod string) string {
	switch setback.Reason {
	case pods.SetbackOOMKilled:
		return fmt.Sprintf("container %q of pod %s ran out of memory", setback.Container, pod)
	case pods.SetbackRestarted:
		return fmt.Sprintf("container %q of pod %s restarted", setback.Container, pod)
	default:
		return fmt.Sprintf("pod %s did not become ready", pod)
	}
}

// forgetRevert drops a revert that ended too long ago to count, or that belongs to another
// generation of the spec.
func (s *scope) forgetRevert() {
	revert := s.status.Revert
	if revert == nil {
		return
	}
	if s.scaler.Status.ObservedGeneration != s.scaler.Generation || !pauseBetween(revert.Since, revert.Until).counts(s.now) {
		s.status.Revert = nil
	}
}

// isReverted reports whether a revert is in force.
func (s *scope) isReverted() bool {
	return s.status.Revert != nil && s.now.Before(s.status.Revert.Until.Time)
}

// revertMessage describes a revert, and when it ends.
func (s *scope) revertMessage() string {
	return fmt.Sprintf("Pods did worse after their size was lowered (%s). Until %s, pods get at least the last known good size, "+
		"see status.lastKnownGood. Then, or when spec changes, the controller lowers sizes again.",
		s.status.Revert.Message, s.status.Revert.Until.UTC().Format(time.RFC3339))
}

// revertedSizes returns the sizes that pods get at least while a revert is in force, or nil.
func (s *scope) revertedSizes() []autoscalingv1beta1.ContainerSizing {
	if !s.isReverted() {
		return nil
	}
	s.result.requeueIn(s.status.Revert.Until.Sub(s.now))
	return s.previousSizes()
}
