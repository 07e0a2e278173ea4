package v1beta1

import "k8s.io/apimachinery/pkg/api/resource"

// SelectPolicy says whether a direction is followed.
//
// +kubebuilder:validation:Enum=Disabled
type SelectPolicy string

// SelectPolicyDisabled never changes a pod that runs in this direction.
const SelectPolicyDisabled SelectPolicy = "Disabled"

// ScalingRules say when pods that run follow the recommendation in one direction.
type ScalingRules struct {
	// Time, in seconds, for which the target must have been off by more than the tolerance. A
	// request that is out of the recommendation's bounds need not wait as long: one below the
	// lower bound is raised at once, one above the upper bound lowered after an hour at most.
	// +kubebuilder:default=43200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`

	// Share of the request by which the target may differ from it: 0.1 is a tenth.
	// +kubebuilder:default="0.1"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('10')) <= 0",message="tolerance must be a share from 0 to 10, such as 0.1 for a tenth"
	// +optional
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`

	// Disabled never changes a pod that runs in this direction.
	// +optional
	SelectPolicy SelectPolicy `json:"selectPolicy,omitempty"`
}

// Behavior says when pods that run follow the recommendation.
type Behavior struct {
	// When requests are raised.
	// +optional
	ScaleUp *ScalingRules `json:"scaleUp,omitempty"`

	// When requests are lowered.
	// +optional
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`

	// Share of the Deployment's pods, in percent, of which a container may be restarted at a
	// time where a resize takes that; at least one may.
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxRestartingPercent int32 `json:"maxRestartingPercent,omitempty"`

	// When the Deployment is rolled out anew, where pods cannot be resized in place.
	// +optional
	Rollout *RolloutRules `json:"rollout,omitempty"`
}

// RolloutRules say when a Deployment may be rolled out anew.
type RolloutRules struct {
	// Least time, in seconds, from one rollout to the next, whoever started the first.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	CooldownSeconds *int32 `json:"cooldownSeconds,omitempty"`

	// Roll out also where no pod may run meanwhile: with the strategy Recreate, or where
	// maxUnavailable lets all pods go at once, as a single replica without surge does.
	// +optional
	AllowOutage bool `json:"allowOutage,omitempty"`
}
