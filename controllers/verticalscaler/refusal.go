package verticalscaler

import (
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// refusalGracePeriod is how long the API server must have refused pods before a size counts as
	// refused too. The ReplicaSet controller tries again many times within it.
	refusalGracePeriod = 30 * time.Second
	// maxRetryTime is the longest time after which the ReplicaSet controller tries again to create
	// pods. Before, the time doubles with each refusal (pkg/controller/replicaset in
	// k8s.io/kubernetes, DefaultTypedControllerRateLimiter in client-go).
	maxRetryTime = 1000 * time.Second
	// reasonFailedCreate is the ReplicaSet controller's reason if it cannot create pods. It can
	// also fail to delete some.
	reasonFailedCreate = "FailedCreate"
	// maxRefusalMessage is how much of a message is published, in bytes.
	maxRefusalMessage = 1024
)

var (
	// quotaText matches the API server's message if a ResourceQuota refuses an object
	// (pkg/admission/plugin/resourcequota in k8s.io/apiserver).
	quotaText = regexp.MustCompile(`\b(?:exceeded|failed|insufficient|status unknown for) quota\b.*`)
	// decisionText matches the API server's message if a policy, a webhook or a LimitRange decided
	// to refuse an object. Others can be temporary, for example if a webhook does not answer.
	decisionText = regexp.MustCompile(`\bdenied (?:the )?request\b|\b(?:usage|ratio) per (?:Pod|Container) is\b`)
	// podInRefusal matches the beginning of most messages, with the name of the pod.
	podInRefusal = regexp.MustCompile(`^[Pp]ods? "([^"]+)" is (?:forbidden|invalid): `)
)

// creationRefusal is why the API server refuses new pods of a Deployment.
//
// The ReplicaSet controller reports its first refusal until it has created all pods. By now,
// something else may refuse them, with the same text and time. So another size counts as refused if
// the controller has tried it, and the refusal has not ended.
type creationRefusal struct {
	obstacle
	since time.Time
	// isDecision is true if the refusal does not go away on its own.
	isDecision bool
}

// creationRefusal returns why the API server refuses new pods of the target, or nil if it does not.
func (s *scope) creationRefusal() *creationRefusal {
	if s.deployment == nil {
		return nil
	}
	for i := range s.deployment.Status.Conditions {
		condition := &s.deployment.Status.Conditions[i]
		if condition.Type != appsv1.DeploymentReplicaFailure || condition.Status != corev1.ConditionTrue ||
			condition.Reason != reasonFailedCreate {
			continue
		}
		refused := &creationRefusal{since: condition.LastTransitionTime.Time}
		refused.message = refusalMessage(s.deployment.Name, condition.Message)
		refused.reason, refused.isDecision = autoscalingv1beta1.ReasonCreationRefused, decisionText.MatchString(refused.message)
		if quota := quotaText.FindString(refused.message); quota != "" {
			refused.reason, refused.message, refused.isDecision = autoscalingv1beta1.ReasonQuotaExceeded, quota, true
		} else if s.policyMissing {
			return nil // New pods have the template's size already.
		}
		return refused
	}
	return nil
}

// refusalMessage returns a message in one line and without the name of the pod.
func refusalMessage(deployment, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if match := podInRefusal.FindStringSubmatch(message); match != nil {
		message = strings.ReplaceAll(strings.TrimPrefix(message, match[0]), match[1], deployment)
	}
	podName := regexp.MustCompile(`\b` + regexp.QuoteMeta(deployment) + `-[a-z0-9]{1,10}-[a-z0-9]{5}\b`)
	message = podName.ReplaceAllLiteralString(message, deployment)
	if len(message) > maxRefusalMessage {
		message = strings.ToValidUTF8(message[:maxRefusalMessage], "") + "..."
	}
	return message
}

// retryTime returns how much longer the API server may refuse pods before their size counts as
// refused, with the sizes of the fallback in force or without a fallback. It is at most 0 if no
// time is left.
//
// The time until the ReplicaSet controller tries again doubles with each refusal. So it is never
// longer than the time for which pods have been refused.
func (s *scope) retryTime(refused *creationRefusal, inForce *autoscalingv1beta1.Fallback) time.Duration {
	begin, grace := refused.since, refusalGracePeriod
	switch {
	case inForce != nil && inForce.Since.After(begin):
		grace = min(max(grace, inForce.Since.Sub(begin)), maxRetryTime)
		begin = inForce.Since.Time
	case inForce == nil && refused.isDecision:
		grace = 0
	}
	return begin.Add(grace).Sub(s.now)
}

// isRefusedAtTemplate reports whether the API server refuses new pods with the sizes of a fallback
// to the template too. Then their size is not the cause.
func (s *scope) isRefusedAtTemplate() bool {
	fallback, refused := s.status.Fallback, s.creationRefusal()
	return fallback.Size != autoscalingv1beta1.FallbackLastKnownGood &&
		fallback.Reason != autoscalingv1beta1.ReasonUnschedulable &&
		refused != nil && s.retryTime(refused, fallback) <= 0
}

// refusedResources returns the resources for which a quota refuses pods: their CPU or memory. If it
// counts pods, it refuses as many even if others shrink.
func refusedResources(refusal string) []corev1.ResourceName {
	_, requested, _ := strings.Cut(refusal, "requested: ")
	requested, _, _ = strings.Cut(requested, ", used: ")
	var names []corev1.ResourceName
	for amount := range strings.SplitSeq(requested, ",") {
		name, _, _ := strings.Cut(amount, "=")
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU:
			names = append(names, corev1.ResourceCPU)
		case corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory:
			names = append(names, corev1.ResourceMemory)
		}
	}
	return names
}
