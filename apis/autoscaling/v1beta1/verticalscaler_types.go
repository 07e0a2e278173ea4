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
