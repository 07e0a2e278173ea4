package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateMode says how far a VerticalScaler may go.
//
// +kubebuilder:validation:Enum=Off;Initial;InPlace;InPlaceOrRollout
type UpdateMode string

const (
	// UpdateModeOff recommends and applies nothing.
	UpdateModeOff UpdateMode = "Off"
	// UpdateModeInitial sizes pods at birth.
	UpdateModeInitial UpdateMode = "Initial"
	// UpdateModeInPlace also resizes running pods, where that needs no new pod.
	UpdateModeInPlace UpdateMode = "InPlace"
	// UpdateModeInPlaceOrRollout also rolls the Deployment out anew where a resize cannot be done in place.
	UpdateModeInPlaceOrRollout UpdateMode = "InPlaceOrRollout"
)

// ContainerMode says whether a container is sized.
//
// +kubebuilder:validation:Enum=Auto;Off
type ContainerMode string

const (
	// ContainerModeAuto sizes the container.
	ContainerModeAuto ContainerMode = "Auto"
	// ContainerModeOff leaves the container as it is.
	ContainerModeOff ContainerMode = "Off"
)

// ControlledValues says which of a container's values are set.
//
// +kubebuilder:validation:Enum=RequestsAndLimits;RequestsOnly
type ControlledValues string

const (
	// ControlledValuesRequestsAndLimits sets requests, and limits in the proportion the container has.
	ControlledValuesRequestsAndLimits ControlledValues = "RequestsAndLimits"
	// ControlledValuesRequestsOnly sets requests and leaves limits alone.
	ControlledValuesRequestsOnly ControlledValues = "RequestsOnly"
)

// ControlledResource is a resource that can be sized.
//
// +kubebuilder:validation:Enum=cpu;memory
type ControlledResource corev1.ResourceName

// VerticalScalerSpec is what a user asks of a VerticalScaler.
type VerticalScalerSpec struct {
	// Name of the Deployment to size, in the same namespace. It may be created later; it is
	// never owned, and stays when the VerticalScaler is deleted.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="deploymentName must be a Deployment's name: lower case letters, digits, '-' and '.', beginning and ending with a letter or a digit"
	DeploymentName string `json:"deploymentName"`

	// How far to go: Off recommends only; Initial sizes pods at birth; InPlace also resizes
	// running pods; InPlaceOrRollout also rolls out anew where a pod cannot be resized in place.
	// +kubebuilder:default=InPlaceOrRollout
	// +optional
	UpdateMode UpdateMode `json:"updateMode,omitempty"`

	// What applies to single containers. A policy for "*" applies to every container that
	// has none of its own.
	// +listType=map
	// +listMapKey=containerName
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ContainerPolicies []ContainerPolicy `json:"containerPolicies,omitempty"`

	// How recommendations are made from usage.
	// +optional
	Recommendation *RecommendationPolicy `json:"recommendation,omitempty"`

	// When pods that run follow the recommendation. New pods always do.
	// +optional
	Behavior *Behavior `json:"behavior,omitempty"`

	// Stop learning from usage, recommending and applying. New pods are born as the Deployment
	// says. The recommendation stays, pods that run keep their size, and the claim on the
	// Deployment stays: a younger VerticalScaler does not step in.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ResourceAmounts are amounts of the resources that can be sized.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || quantity(string(self.cpu)).compareTo(quantity('0')) >= 0",message="cpu must not be negative"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || quantity(string(self.memory)).compareTo(quantity('0')) >= 0",message="memory must not be negative"
type ResourceAmounts struct {
	// Amount of CPU, in cores: 250m, 2.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Amount of memory, in bytes: 64Mi, 2Gi.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// ContainerPolicy says how a container is sized.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.cpu) || !has(self.maxAllowed.cpu) || quantity(string(self.minAllowed.cpu)).compareTo(quantity(string(self.maxAllowed.cpu))) <= 0",message="minAllowed.cpu must be at most maxAllowed.cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.memory) || !has(self.maxAllowed.memory) || quantity(string(self.minAllowed.memory)).compareTo(quantity(string(self.maxAllowed.memory))) <= 0",message="minAllowed.memory must be at most maxAllowed.memory"
// +kubebuilder:validation:XValidation:rule="!has(self.maxAllowed) || ((!has(self.maxAllowed.cpu) || quantity(string(self.maxAllowed.cpu)).compareTo(quantity('0')) != 0) && (!has(self.maxAllowed.memory) || quantity(string(self.maxAllowed.memory)).compareTo(quantity('0')) != 0))",message="maxAllowed must be more than zero: use mode Off to leave the container alone"
type ContainerPolicy struct {
	// Name of the container, or "*" for every container without a policy of its own.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '*' || !format.dns1123Label().validate(self).hasValue()",message="containerName must be a container's name, or '*' for all"
	ContainerName string `json:"containerName"`

	// Auto sizes the container, Off leaves it as it is.
	// +kubebuilder:default=Auto
	// +optional
	Mode ContainerMode `json:"mode,omitempty"`

	// Least amounts that are ever set.
	// +optional
	MinAllowed *ResourceAmounts `json:"minAllowed,omitempty"`

	// Greatest amounts that are ever set.
	// +optional
	MaxAllowed *ResourceAmounts `json:"maxAllowed,omitempty"`

	// Resources that are sized.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={cpu,memory}
	// +optional
	ControlledResources []ControlledResource `json:"controlledResources,omitempty"`

	// Whether limits follow, in the proportion the container has between limit and request,
	// or requests alone are set.
	// +kubebuilder:default=RequestsAndLimits
	// +optional
	ControlledValues ControlledValues `json:"controlledValues,omitempty"`
}

// RecommendationPolicy says how recommendations are made from usage.
//
// +kubebuilder:validation:XValidation:rule="self.lowerPercentile <= self.targetPercentile && self.targetPercentile <= self.upperPercentile",message="lowerPercentile must be at most targetPercentile, and targetPercentile at most upperPercentile: set all three when changing one beyond another"
type RecommendationPolicy struct {
	// Percentile of usage that the target covers: 90 means that nine tenths of the time
	// no more was used.
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

	// What is added to each percentile, in percent of it.
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MarginPercent *int32 `json:"marginPercent,omitempty"`

	// Time in which a sample of usage loses half of its weight, from 1h to 144h. A longer one
	// forgets a busy day more slowly.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(\\\\.[0-9]+)?(h|m|s))+$') && duration(self) >= duration('1h') && duration(self) <= duration('144h')",message="halfLife must be a duration from 1h to 144h in hours, minutes and seconds, such as 12h or 1h30m"
	// +optional
	HalfLife *metav1.Duration `json:"halfLife,omitempty"`

	// Least amounts that a pod is recommended, shared evenly among its containers; 25m CPU
	// and 250Mi of memory where it is not set. 0 turns a minimum off.
	// +optional
	PodMinimum *ResourceAmounts `json:"podMinimum,omitempty"`
}

// Cap says what made a recommended target differ from what usage alone would make it.
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
	// CapNodeSize is what the largest node has to give.
	CapNodeSize Cap = "NodeSize"
)

// ContainerRecommendation is what a container should request, and how that came about.
type ContainerRecommendation struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// What the container should request.
	Target corev1.ResourceList `json:"target"`

	// A request below this is too little.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`

	// A request above this is more than the container needs.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`

	// The target before anything capped it.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`

	// Number of usage samples behind the recommendation, when it was last written: it is
	// written anew when the target has moved by 5 % or a bound by 10 %.
	// +optional
	Samples int64 `json:"samples,omitempty"`

	// Time from the first of those samples to the last.
	// +optional
	Span metav1.Duration `json:"span,omitzero"`

	// What made the target differ from the uncapped one, by resource: PodMinimum, MinAllowed,
	// MaxAllowed, LimitRange or NodeSize.
	// +optional
	CappedBy map[corev1.ResourceName]Cap `json:"cappedBy,omitempty"`
}

// ContainerSizing is what a container of a new pod gets.
type ContainerSizing struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Requests that are set.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Limits that are set.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Fallback says why new pods do not get the recommended size for a while, which kept some from
// being created or from finding a node.
type Fallback struct {
	// Why: QuotaExceeded, where a ResourceQuota refused new pods, or Unschedulable, where no node
	// had room for one.
	// +kubebuilder:validation:Enum=QuotaExceeded;Unschedulable
	Reason string `json:"reason"`

	// What the API server or the scheduler said of it.
	// +optional
	Message string `json:"message,omitempty"`

	// When it began.
	Since metav1.Time `json:"since"`

	// When the recommended size is tried again; before that, when spec is changed. If that is in
	// vain, the next time is twice as long, up to a day.
	Until metav1.Time `json:"until"`
}

// VerticalScalerStatus is the state of a VerticalScaler.
type VerticalScalerStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Name of the Deployment that recommendations and sizing are of. New pods of another one get
	// nothing, whatever spec.deploymentName says meanwhile.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`

	// What each container should request.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Recommendations []ContainerRecommendation `json:"recommendations,omitempty"`

	// What a pod should request in all: the sum of its containers' targets.
	// +optional
	PodTarget corev1.ResourceList `json:"podTarget,omitempty"`

	// What each container of a new pod gets; empty where nothing may be applied. The annotation
	// autoscaling.example.com/pin: "true" keeps it as it is.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Sizing []ContainerSizing `json:"sizing,omitempty"`

	// Why new pods could not be had at the recommended size. Until the time in it they get no more
	// than the Deployment's own template asks for, and pods that run are left alone; it stays for
	// as long again.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// Conditions: Ready (wait for this one), TargetFound, Conflicted, RecommendationReady
	// and Applied.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VerticalScaler sizes the pods of a Deployment that it does not own.
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

	// What is asked for.
	Spec VerticalScalerSpec `json:"spec"`

	// What is so. Only the manager may write it: it decides what pods get.
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
