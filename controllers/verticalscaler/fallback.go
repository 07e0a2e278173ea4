package verticalscaler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

const (
	// fallbackTime is how long new pods do not get the recommended size after it kept one from
	// being created or scheduled. No event reports that there is room again: the use of quotas and
	// nodes changes all the time.
	fallbackTime = time.Hour
	// maxFallbackTime is the longest fallback. Each fallback that directly follows another is
	// twice as long, so that a Deployment is not rolled out in vain every hour.
	maxFallbackTime = 24 * time.Hour
)

// obstacle is why pods with the recommended size cannot be created or scheduled: a reason of the
// condition Applied, and a message of the API server or of the scheduler. The zero value is none.
type obstacle struct {
	reason, message string
}

// fallBack returns the sizes of new pods and the fallback that changes them, if there is one. The
// first fallback is to the last known good size. If pods cannot be created or scheduled with that
// either, the next one is to the template. A new generation of the spec ends a fallback.
func (s *scope) fallBack(
	sizes []autoscalingv1beta1.ContainerSizing,
) ([]autoscalingv1beta1.ContainerSizing, *autoscalingv1beta1.Fallback) {
	previous := s.scaler.Status.Fallback
	if s.scaler.Status.ObservedGeneration != s.scaler.Generation {
		previous = nil
	}
	var next *autoscalingv1beta1.Fallback
	if s.isInForce(previous) {
		next = s.continued(previous, sizes)
	} else {
		length := fallbackTime
		if previous != nil {
			last := pauseBetween(previous.Since, previous.Until)
			length = last.next(s.now, fallbackTime, maxFallbackTime).length
			if !last.counts(s.now) {
				previous = nil
			}
		}
		found, _ := s.obstacle(nil)
		if found.reason == "" {
			return sizes, previous
		}
		next = s.started(found, sizes, length)
	}
	if !s.hasEffect(next, sizes) {
		return sizes, nil
	}
	return s.reduced(sizes, next), next
}

// started returns the first fallback from an obstacle.
func (s *scope) started(
	found obstacle, sizes []autoscalingv1beta1.ContainerSizing, length time.Duration,
) *autoscalingv1beta1.Fallback {
	since := metav1.NewTime(s.now).Rfc3339Copy()
	fallback := &autoscalingv1beta1.Fallback{
		Reason: found.reason, Message: found.message, Size: autoscalingv1beta1.FallbackLastKnownGood,
		Since: since, Until: metav1.NewTime(since.Add(length)),
	}
	template := *fallback
	template.Size = autoscalingv1beta1.FallbackTemplate
	known := s.reduced(sizes, fallback)
	if equality.Semantic.DeepEqual(known, sizes) || equality.Semantic.DeepEqual(known, s.reduced(sizes, &template)) ||
		found.reason == autoscalingv1beta1.ReasonUnschedulable && !s.couldScheduleAny(known) {
		return &template
	}
	return fallback
}

// continued returns the fallback that follows one in force, which is the same one unless pods
// cannot be created or scheduled with its sizes either.
func (s *scope) continued(
	inForce *autoscalingv1beta1.Fallback, sizes []autoscalingv1beta1.ContainerSizing,
) *autoscalingv1beta1.Fallback {
	found, _ := s.obstacle(inForce)
	isUnschedulable := inForce.Reason == autoscalingv1beta1.ReasonUnschedulable
	if found.reason == "" || inForce.Size != autoscalingv1beta1.FallbackLastKnownGood && !isUnschedulable {
		return inForce
	}
	next := inForce.DeepCopy()
	next.Size = autoscalingv1beta1.FallbackTemplate
	switch {
	case found.reason != autoscalingv1beta1.ReasonUnschedulable:
		next.Reason, next.Message = found.reason, found.message
	case isUnschedulable && found.message != inForce.Message:
		// Both messages count: each names resources that nodes lack.
		next.Message += " " + found.message
	}
	if equality.Semantic.DeepEqual(s.reduced(sizes, next), s.reduced(sizes, inForce)) {
		return inForce
	}
	next.Since = metav1.NewTime(s.now).Rfc3339Copy()
	next.Until = metav1.NewTime(next.Since.Add(inForce.Until.Sub(inForce.Since.Time)))
	return next
}

// reduced returns the sizes of new pods during a fallback. After a refusal that is not for a quota,
// a fallback to the template leaves no size at all: what refuses pods can also require a minimum.
func (s *scope) reduced(
	sizes []autoscalingv1beta1.ContainerSizing, fallback *autoscalingv1beta1.Fallback,
) []autoscalingv1beta1.ContainerSizing {
	template, ranges := &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges
	resources := loweredBy(fallback)
	if good := s.status.LastKnownGood; good != nil {
		sizes = sizing.NoMoreThan(template, sizes, good.Sizes, ranges, resources)
	}
	switch {
	case fallback.Size == autoscalingv1beta1.FallbackLastKnownGood:
		return sizes
	case fallback.Reason == autoscalingv1beta1.ReasonCreationRefused:
		return nil
	default:
		return sizing.NoMoreThanTemplate(template, sizes, ranges, resources)
	}
}

// loweredBy returns the resources that a fallback lowers.
func loweredBy(fallback *autoscalingv1beta1.Fallback) []corev1.ResourceName {
	if fallback.Reason == autoscalingv1beta1.ReasonUnschedulable {
		return sizing.Insufficient(fallback.Message)
	}
	return sizing.AllResources()
}

// hasEffect reports whether new pods get other sizes because of a fallback, now or after it has
// gone on to the template.
func (s *scope) hasEffect(fallback *autoscalingv1beta1.Fallback, sizes []autoscalingv1beta1.ContainerSizing) bool {
	if fallback.Reason == autoscalingv1beta1.ReasonCreationRefused {
		return sizing.DiffersFromTemplate(&s.deployment.Spec.Template.Spec, sizes, s.constraints.LimitRanges)
	}
	template := *fallback
	template.Size = autoscalingv1beta1.FallbackTemplate
	return !equality.Semantic.DeepEqual(s.reduced(sizes, &template), sizes)
}

// isInForce reports whether new pods get the sizes of a fallback. After its time, a fallback lasts
// as long as the API server still refuses pods of the template's size: they can be refused for
// their size again as soon as the other cause is gone, and nothing would report that.
func (s *scope) isInForce(fallback *autoscalingv1beta1.Fallback) bool {
	if fallback == nil {
		return false
	}
	return s.now.Before(fallback.Until.Time) || s.outlives(fallback)
}

// outlives reports whether a refusal began before the end of a fallback to the template, and has
// not ended since.
func (s *scope) outlives(fallback *autoscalingv1beta1.Fallback) bool {
	refused := s.creationRefusal()
	return refused != nil && refused.since.Before(fallback.Until.Time) &&
		fallback.Size != autoscalingv1beta1.FallbackLastKnownGood &&
		fallback.Reason != autoscalingv1beta1.ReasonUnschedulable
}

// hasFallback reports whether new pods get a fallback size now.
func (s *scope) hasFallback() bool { return s.isInForce(s.status.Fallback) }

// obstacle returns why pods cannot be created or scheduled because of their size, with the sizes
// of the fallback in force, or without a fallback. If there is none yet, left is the time until the
// first grace period ends; 0 if there is no grace period.
func (s *scope) obstacle(inForce *autoscalingv1beta1.Fallback) (found obstacle, left time.Duration) {
	if refused := s.creationRefusal(); refused != nil {
		if left = s.retryTime(refused, inForce); left <= 0 {
			return refused.obstacle, 0
		}
	}
	for _, pod := range s.unschedulableByUs() {
		podLeft := s.graceLeft(pod, inForce)
		if podLeft <= 0 {
			return obstacle{autoscalingv1beta1.ReasonUnschedulable, unschedulableMessage(pod)}, 0
		}
		if left == 0 || podLeft < left {
			left = podLeft
		}
	}
	return obstacle{}, left
}

// requeueForFallback requeues the scaler for the end of grace periods and of the fallback in force.
func (s *scope) requeueForFallback() {
	var inForce *autoscalingv1beta1.Fallback
	if s.hasFallback() {
		inForce = s.status.Fallback
		if left := inForce.Until.Sub(s.now); left > 0 {
			s.result.requeueIn(max(left, time.Millisecond))
		}
	}
	_, left := s.obstacle(inForce)
	s.result.requeueIn(left)
}

// withoutHPA returns the names of the resources that are not left to HorizontalPodAutoscalers.
func (s *scope) withoutHPA(names []corev1.ResourceName) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Clone(names), func(name corev1.ResourceName) bool { return s.scaledByHPA[name] != "" })
}
