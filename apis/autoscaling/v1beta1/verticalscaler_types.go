package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateMode controls how a VerticalScaler applies recommendations.
//
// +kubebuilder:validation:Enum=Off;Initial;InPlace;InPlaceOrRollout
type UpdateMode string

const (
	// UpdateModeOff only recommends sizes and does not apply them.
	UpdateModeOff UpdateMode = "Off"
	// UpdateModeInitial sets the size of pods at creation.
	UpdateModeInitial UpdateMode = "Initial"
	// UpdateModeInPlace also resizes running pods, but never replaces them.
	UpdateModeInPlace UpdateMode = "InPlace"
	// UpdateModeInPlaceOrRollout also rolls out the Deployment if pods cannot be resized in place.
	UpdateModeInPlaceOrRollout UpdateMode = "InPlaceOrRollout"
)

// ContainerMode controls whether a container is sized.
//
// +kubebuilder:validation:Enum=Auto;Off
type ContainerMode string

const (
	// ContainerModeAuto sizes the container.
	ContainerModeAuto ContainerMode = "Auto"
	// ContainerModeOff does not change the container.
	ContainerModeOff ContainerMode = "Off"
)

// ControlledValues controls whether limits are set in addition to requests.
//
// +kubebuilder:validation:Enum=RequestsAndLimits;RequestsOnly
type ControlledValues string

const (
	// ControlledValuesRequestsAndLimits sets requests and limits. It keeps the container's ratio of
	// limit to request.
	ControlledValuesRequestsAndLimits ControlledValues = "RequestsAndLimits"
	// ControlledValuesRequestsOnly sets requests and does not change limits.
	ControlledValuesRequestsOnly ControlledValues = "RequestsOnly"
)

// ControlledResource is a resource that can be sized.
//
// +kubebuilder:validation:Enum=cpu;memory
type ControlledResource corev1.ResourceName

// VerticalScalerSpec is the desired state of a VerticalScaler.
type VerticalScalerSpec struct {
	// Name of the Deployment to size. The Deployment must be in the same namespace. You can
	// create it later. The VerticalScaler does not own it: if you delete the VerticalScaler,
	// the Deployment stays.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="deploymentName must be a valid Deployment name: use lowercase letters, digits, '-' and '.', and start and end with a letter or digit"
	DeploymentName string `json:"deploymentName"`

	// How recommendations are applied. Off only recommends sizes. Initial sets the size of pods
	// at creation. InPlace also resizes running pods. InPlaceOrRollout also rolls out the
	// Deployment if pods cannot be resized in place.
	// +kubebuilder:default=InPlaceOrRollout
	// +optional
	UpdateMode UpdateMode `json:"updateMode,omitempty"`

	// Policies for single containers. The policy with containerName "*" applies to every
	// container that has no policy of its own.
	// +listType=map
	// +listMapKey=containerName
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ContainerPolicies []ContainerPolicy `json:"containerPolicies,omitempty"`

	// How recommendations are calculated from usage.
	// +optional
	Recommendation *RecommendationPolicy `json:"recommendation,omitempty"`

	// When running pods follow the recommendation. New pods follow it at once.
	// +optional
	Behavior *Behavior `json:"behavior,omitempty"`

	// Whether the VerticalScaler is suspended. A suspended VerticalScaler does not learn from
	// usage, and does not recommend or apply sizes. New pods use the Deployment's own resources.
	// Running pods keep their size, and the last recommendation stays in the status. A newer
	// VerticalScaler for the same Deployment does not take over.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DecodeError describes the fields that cannot be decoded, and is empty if there are none. These
	// fields have their zero value, so the spec must not be acted on.
	DecodeError string `json:"-"`
}

// ResourceAmounts are amounts of CPU and memory.
//
// The rules of amounts check the exponent first: it has two digits at most. Parsing takes a time that
// grows with the exponent, and an exponent of ten digits keeps the API server busy forever.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || (!string(self.cpu).matches('[eE].*[0-9.]{3}') && quantity(string(self.cpu)).compareTo(quantity('0')) >= 0 && quantity(string(self.cpu)).compareTo(quantity('1M')) <= 0)",message="cpu must be from 0 to 1M cores: use an amount such as 250m"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || (!string(self.memory).matches('[eE].*[0-9.]{3}') && quantity(string(self.memory)).compareTo(quantity('0')) >= 0 && quantity(string(self.memory)).compareTo(quantity('1Ei')) <= 0)",message="memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"
type ResourceAmounts struct {
	// Amount of CPU in cores, such as 250m or 2.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Amount of memory in bytes, such as 64Mi or 2Gi.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// ContainerPolicy controls how a container is sized.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.cpu) || !has(self.maxAllowed.cpu) || string(self.minAllowed.cpu).matches('[eE].*[0-9.]{3}') || string(self.maxAllowed.cpu).matches('[eE].*[0-9.]{3}') || quantity(string(self.minAllowed.cpu)).compareTo(quantity(string(self.maxAllowed.cpu))) <= 0",message="minAllowed.cpu must be at most maxAllowed.cpu: lower minAllowed.cpu or raise maxAllowed.cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.memory) || !has(self.maxAllowed.memory) || string(self.minAllowed.memory).matches('[eE].*[0-9.]{3}') || string(self.maxAllowed.memory).matches('[eE].*[0-9.]{3}') || quantity(string(self.minAllowed.memory)).compareTo(quantity(string(self.maxAllowed.memory))) <= 0",message="minAllowed.memory must be at most maxAllowed.memory: lower minAllowed.memory or raise maxAllowed.memory"
// +kubebuilder:validation:XValidation:rule="!has(self.maxAllowed) || ((!has(self.maxAllowed.cpu) || string(self.maxAllowed.cpu).matches('[eE].*[0-9.]{3}') || quantity(string(self.maxAllowed.cpu)).compareTo(quantity('0')) != 0) && (!has(self.maxAllowed.memory) || string(self.maxAllowed.memory).matches('[eE].*[0-9.]{3}') || quantity(string(self.maxAllowed.memory)).compareTo(quantity('0')) != 0))",message="maxAllowed must be greater than 0: to leave the container unchanged, set mode to Off"
type ContainerPolicy struct {
	// Name of the container, or "*" for every container that has no policy of its own.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '*' || !format.dns1123Label().validate(self).hasValue()",message="containerName must be '*' or a valid container name: use lowercase letters, digits and '-', and start and end with a letter or digit"
	ContainerName string `json:"containerName"`

	// Whether the container is sized. Auto sizes the container. Off does not change it.
	// +kubebuilder:default=Auto
	// +optional
	Mode ContainerMode `json:"mode,omitempty"`

	// Minimum target for each resource. A LimitRange or the size of the largest node can still
	// reduce the target.
	// +optional
	MinAllowed *ResourceAmounts `json:"minAllowed,omitempty"`

	// Maximum target for each resource. A LimitRange can still raise the target. No limit is raised
	// above this amount either, except to stay above the request.
	// +optional
	MaxAllowed *ResourceAmounts `json:"maxAllowed,omitempty"`

	// Resources to size. Other resources do not change.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={cpu,memory}
	// +optional
	ControlledResources []ControlledResource `json:"controlledResources,omitempty"`

	// Which values are set. RequestsAndLimits sets requests and limits. A limit keeps its ratio to the
	// request. If it is at least 4 times the request, it stays until the request comes near it.
	// RequestsOnly sets requests and does not change limits.
	// +kubebuilder:default=RequestsAndLimits
	// +optional
	ControlledValues ControlledValues `json:"controlledValues,omitempty"`
}

// RecommendationPolicy controls how recommendations are calculated from usage.
//
// +kubebuilder:validation:XValidation:rule="self.lowerPercentile <= self.targetPercentile && self.targetPercentile <= self.upperPercentile",message="lowerPercentile must be at most targetPercentile, and targetPercentile must be at most upperPercentile: unset percentiles have defaults (50, 90, 95), so you may need to set all three"
type RecommendationPolicy struct {
	// Percentile of usage that the target covers. For example, 90 means that usage was at or
	// below the target for 90% of the time, before the margin is added.
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	TargetPercentile int32 `json:"targetPercentile,omitempty"`

	// Percentile of usage that the lower bound covers.
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	LowerPercentile int32 `json:"lowerPercentile,omitempty"`

	// Percentile of usage that the upper bound covers.
	// +kubebuilder:default=95
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	UpperPercentile int32 `json:"upperPercentile,omitempty"`

	// Margin that is added to each percentile, as a percentage of it.
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MarginPercent *int32 `json:"marginPercent,omitempty"`

	// Time after which a usage sample has half of its weight, from 1h to 144h. With a longer
	// half-life, a busy day influences the recommendation for longer.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(\\\\.[0-9]+)?(h|m|s))+$') && duration(self) >= duration('1h') && duration(self) <= duration('144h')",message="halfLife must be a duration from 1h to 144h in hours, minutes and seconds, such as 12h or 1h30m"
	// +optional
	HalfLife *metav1.Duration `json:"halfLife,omitempty"`

	// Minimum amounts for a pod. They are shared evenly among its containers. Unset amounts
	// default to 25m of CPU and 250Mi of memory. Set an amount to 0 to have no minimum.
	// +optional
	PodMinimum *ResourceAmounts `json:"podMinimum,omitempty"`
}

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

// VerticalScaler sets the CPU and memory of the pods of a Deployment that it does not own.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vs,categories=upright
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.deploymentName`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.updateMode`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.podTarget.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.podTarget.memory`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VerticalScaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state of the VerticalScaler.
	Spec VerticalScalerSpec `json:"spec"`

	// Observed state of the VerticalScaler. Only the manager should have permission to write it,
	// because it determines the resources of new pods.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status VerticalScalerStatus `json:"status,omitempty"`
}

// VerticalScalerList is a list of VerticalScalers.
//
// +kubebuilder:object:root=true
type VerticalScalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VerticalScaler `json:"items"`
}

// IsOlderThan reports whether this VerticalScaler was created before another one. If both were
// created in the same second, the name decides.
func (s *VerticalScaler) IsOlderThan(other *VerticalScaler) bool {
	if s.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return s.Name < other.Name
	}
	return s.CreationTimestamp.Before(&other.CreationTimestamp)
}
