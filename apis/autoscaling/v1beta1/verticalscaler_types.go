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

	// Stop applying and recommending. What is applied stays, and so does the claim on the
	// Deployment: a younger VerticalScaler does not step in.
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

// ContainerRecommendation is what a container should request, and how that came about.
type ContainerRecommendation struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// What the container should request.
	Target corev1.ResourceList `json:"target"`

	// A request below this is raised at once.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`

	// A request above this is more than the container needs.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`

	// The target before anything capped it.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`

	// Number of usage samples behind the recommendation.
	// +optional
	Samples int64 `json:"samples,omitempty"`

	// Time from the first of those samples to the last.
	// +optional
	Span metav1.Duration `json:"span,omitzero"`

	// What capped the target, by resource.
	// +optional
	CappedBy map[corev1.ResourceName]string `json:"cappedBy,omitempty"`
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

// VerticalScalerStatus is the state of a VerticalScaler.
type VerticalScalerStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// What each container should request.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Recommendations []ContainerRecommendation `json:"recommendations,omitempty"`

	// What each container of a new pod gets; empty where nothing may be applied.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Sizing []ContainerSizing `json:"sizing,omitempty"`

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
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
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
