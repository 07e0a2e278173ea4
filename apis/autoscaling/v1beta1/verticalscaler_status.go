package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cap is a constraint that changed a recommended target.
//
// +kubebuilder:validation:Enum=PodMinimum;MinAllowed;MaxAllowed;LimitRange;NodeSize
type Cap string

const (
	// CapPodMinimum is the container's share of spec.recommendation.podMinimum.
	CapPodMinimum Cap = "PodMinimum"
	// CapMinAllowed is minAllowed of the container's policy.
	CapMinAllowed Cap = "MinAllowed"
	// CapMaxAllowed is maxAllowed of the container's policy.
	CapMaxAllowed Cap = "MaxAllowed"
	// CapLimitRange is a LimitRange of the namespace.
	CapLimitRange Cap = "LimitRange"
	// CapNodeSize is the amount that the largest node can allocate to a pod.
	CapNodeSize Cap = "NodeSize"
)

// ContainerRecommendation is the recommendation for a container, with details about its calculation.
type ContainerRecommendation struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Recommended requests of the container.
	Target corev1.ResourceList `json:"target"`

	// Lower bound of the recommendation. A request below it is too small.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`

	// Upper bound of the recommendation. A request above it is larger than the container needs.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`

	// Target before any constraint in cappedBy was applied.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`

	// Number of usage samples that the recommendation is based on. This number can be out of
	// date: it is only updated together with the recommendation, when a target changes by 5%, a
	// bound changes by 10%, or a container or cap changes.
	// +optional
	Samples int64 `json:"samples,omitempty"`

	// Time between the first and the last of these samples. Samples before a gap of more than four
	// half-lives, and at least a day, do not count.
	// +optional
	Span metav1.Duration `json:"span,omitzero"`

	// Constraint that changed the target, for each resource that has one: PodMinimum, MinAllowed,
	// MaxAllowed, LimitRange or NodeSize. If several constraints changed the target, this is the
	// last one.
	// +optional
	CappedBy map[corev1.ResourceName]Cap `json:"cappedBy,omitempty"`
}

// ContainerSizing contains the resources that a container of a new pod gets.
type ContainerSizing struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Requests of the container.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Limits of the container.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// The container's own limits in the Deployment's pod template, for which limits was computed.
	// A new pod with other limits, for example after an upgrade of the Deployment, keeps its own
	// limits and gets each request that is below them.
	// +optional
	TemplateLimits corev1.ResourceList `json:"templateLimits,omitempty"`
}

// FallbackSize is the size that new pods get during a fallback.
//
// +kubebuilder:validation:Enum=LastKnownGood;Template
type FallbackSize string

const (
	// FallbackLastKnownGood is at most the size with which pods last ran well.
	FallbackLastKnownGood FallbackSize = "LastKnownGood"
	// FallbackTemplate is at most the size in the Deployment's pod template. If something other than
	// a ResourceQuota rejected pods, it is exactly that size.
	FallbackTemplate FallbackSize = "Template"
)

// Fallback describes why new pods temporarily do not get the recommended size. Pods with that
// size could not be created or scheduled.
type Fallback struct {
	// Reason for the fallback: QuotaExceeded if a ResourceQuota rejected new pods, CreationRefused
	// if something else rejected them, or Unschedulable if no node had room for a new pod.
	// +kubebuilder:validation:Enum=QuotaExceeded;CreationRefused;Unschedulable
	Reason string `json:"reason"`

	// Message from the API server or the scheduler. If the scheduler reported only CPU or only
	// memory as insufficient, the fallback concerns only this resource.
	// +optional
	Message string `json:"message,omitempty"`

	// Size that new pods get at most: LastKnownGood, or Template if there is no smaller last known
	// good size or pods could not be created or scheduled with it either.
	// +optional
	Size FallbackSize `json:"size,omitempty"`

	// Time when the fallback to this size started.
	Since metav1.Time `json:"since"`

	// Time when new pods get the recommended size again. A change to spec ends the fallback
	// earlier. If pods still cannot be created or scheduled, the next fallback lasts twice as
	// long, up to 24 hours. If the API server also rejects pods with the size of the template, the
	// fallback lasts until pods can be created.
	Until metav1.Time `json:"until"`
}

// ObservedSize is a size that pods have had since a time.
type ObservedSize struct {
	// Sizes of the containers.
	// +listType=map
	// +listMapKey=containerName
	Sizes []ContainerSizing `json:"sizes"`

	// Time since when the pods have had these sizes.
	Since metav1.Time `json:"since"`
}

// Revert describes why pods got a previous, larger size again. They did worse after their size
// was lowered.
type Revert struct {
	// Reason for the revert: OOMKilled if a container ran out of memory, Restarted if a container
	// restarted, or NotReady if a pod did not become ready.
	// +kubebuilder:validation:Enum=OOMKilled;Restarted;NotReady
	Reason string `json:"reason"`

	// What happened, and in which pod.
	// +optional
	Message string `json:"message,omitempty"`

	// Time when the revert started.
	Since metav1.Time `json:"since"`

	// Time when sizes may be lowered again. If pods do worse again, the next revert lasts twice as
	// long, up to a week.
	Until metav1.Time `json:"until"`
}

// RolloutState is the progress of a rollout.
//
// +kubebuilder:validation:Enum=Requested;Withdrawn;Started;Completed;Effective;Ineffective
type RolloutState string

const (
	// RolloutRequested is a rollout that is about to start.
	RolloutRequested RolloutState = "Requested"
	// RolloutStarted is a rollout in progress.
	RolloutStarted RolloutState = "Started"
	// RolloutWithdrawn is a rollout that did not start, because it was no longer necessary or
	// possible.
	RolloutWithdrawn RolloutState = "Withdrawn"
	// RolloutCompleted is a rollout that has ended. The pods do not show yet what it has achieved.
	RolloutCompleted RolloutState = "Completed"
	// RolloutEffective is a rollout that gave pods their size.
	RolloutEffective RolloutState = "Effective"
	// RolloutIneffective is a rollout that did not give pods their size.
	RolloutIneffective RolloutState = "Ineffective"
)

// RolloutStatus describes the last rollout that the VerticalScaler requested.
type RolloutStatus struct {
	// Reason why pods had to be replaced.
	Reason string `json:"reason"`

	// Hash of what the rollout was for: the reason, the Deployment's pod template and the admission
	// policy, followed by a hash of the sizing. There is at most one rollout for the same cause.
	Cause string `json:"cause"`

	// Progress of the rollout: Requested, Withdrawn, Started, Completed, Effective or Ineffective.
	State RolloutState `json:"state"`

	// Time when the rollout was requested. It is the value of the annotation that starts it.
	RequestedAt metav1.Time `json:"requestedAt"`

	// Number of rollouts in succession that did not give pods their size. Each doubles the
	// cooldown, up to a week.
	// +optional
	Ineffective int32 `json:"ineffective,omitempty"`
}

// VerticalScalerStatus is the observed state of a VerticalScaler.
type VerticalScalerStatus struct {
	// Generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Name of the Deployment that recommendations and sizing apply to. After a change of
	// spec.deploymentName, pods of the new Deployment are not sized until this field has the
	// new name.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`

	// Recommendation for each container.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Recommendations []ContainerRecommendation `json:"recommendations,omitempty"`

	// Recommended requests of a whole pod. This is the sum of the targets of its containers.
	// +optional
	PodTarget corev1.ResourceList `json:"podTarget,omitempty"`

	// Resources that each container of a new pod gets. This list is empty if no size may be
	// applied. Set the annotation autoscaling.example.com/pin: "true" to keep the current sizes.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Sizing []ContainerSizing `json:"sizing,omitempty"`

	// Details about a fallback. A fallback starts if new pods with the recommended size cannot be
	// created or scheduled. During the fallback, new pods get at most the last known good size or
	// the resources in the Deployment's pod template, and recommendations are not applied to
	// running pods. This field stays after the fallback for as long as the fallback lasted.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// Sizes with which pods last ran well for spec.behavior.trialSeconds.
	// +optional
	LastKnownGood *ObservedSize `json:"lastKnownGood,omitempty"`

	// Sizes that pods have now, while they are not known to run well.
	// +optional
	Trial *ObservedSize `json:"trial,omitempty"`

	// Details about a revert. A revert starts if pods do worse after their size was lowered.
	// During the revert, pods get at least the last known good sizes. This field stays after the
	// revert for as long as the revert lasted.
	// +optional
	Revert *Revert `json:"revert,omitempty"`

	// Last rollout that the VerticalScaler requested.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// Conditions of the VerticalScaler: Ready, TargetFound, Conflicted, RecommendationReady and
	// Applied. Ready is the condition to wait for.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
