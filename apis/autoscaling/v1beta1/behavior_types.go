package v1beta1

import "k8s.io/apimachinery/pkg/api/resource"

// SelectPolicy controls whether running pods follow the recommendation in one direction.
//
// +kubebuilder:validation:Enum=Disabled
type SelectPolicy string

// SelectPolicyDisabled never changes running pods in this direction.
const SelectPolicyDisabled SelectPolicy = "Disabled"

// ScalingRules control when running pods follow the recommendation in one direction.
type ScalingRules struct {
	// Time, in seconds, that the target must differ from the request by more than the tolerance
	// before the request changes. A request below the lower bound is raised immediately, and so is
	// a memory request after an OOM kill. A request above the upper bound is lowered after at most
	// one hour.
	// +kubebuilder:default=43200
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`

	// Fraction of the request that the target may differ by without a change. For example, 0.1
	// means 10%.
	// +kubebuilder:default="0.1"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE].*[0-9.]{3}') && quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('10')) <= 0",message="tolerance must be a fraction from 0 to 10, such as 0.1 for 10%"
	// +optional
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`

	// Set this field to Disabled to never change running pods in this direction, not even after
	// an OOM kill.
	// +optional
	SelectPolicy SelectPolicy `json:"selectPolicy,omitempty"`
}

// ScaleDownRules control when running pods and new pods get less.
type ScaleDownRules struct {
	ScalingRules `json:",inline"`

	// Time, in seconds, that the usage history of a container must span before new pods and
	// running pods get less than the Deployment's pod template requests. A size above the
	// template's needs no history.
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2419200
	// +optional
	MinimumHistorySeconds *int32 `json:"minimumHistorySeconds,omitempty"`
}

// Behavior controls when running pods follow the recommendation.
type Behavior struct {
	// When requests of running pods are raised.
	// +optional
	ScaleUp *ScalingRules `json:"scaleUp,omitempty"`

	// When requests are lowered.
	// +optional
	ScaleDown *ScaleDownRules `json:"scaleDown,omitempty"`

	// Time, in seconds, that pods must run well with a size before it becomes the last known good
	// size: they are ready, no container restarts, and none runs out of memory. If pods do worse
	// within this time after their size was lowered, they get the last known good size again.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	// +optional
	TrialSeconds *int32 `json:"trialSeconds,omitempty"`

	// Percentage of the Deployment's pods in which a resize may restart containers at the same
	// time. The limit is at least one pod. Other pods that are not ready count towards the limit.
	// A pod that is not ready itself waits only for pods that a resize restarts.
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxRestartingPercent int32 `json:"maxRestartingPercent,omitempty"`

	// When the Deployment is rolled out because pods cannot be resized in place.
	// +optional
	Rollout *RolloutRules `json:"rollout,omitempty"`
}

// RolloutRules control when a Deployment may be rolled out.
type RolloutRules struct {
	// Minimum time, in seconds, between the previous rollout and the next one. Rollouts that were
	// started by others count too.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	CooldownSeconds *int32 `json:"cooldownSeconds,omitempty"`

	// Usage history, in seconds, that each sized container needs before a rollout starts. An OOM
	// kill within the last hour takes the place of the history.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	MinimumHistorySeconds *int32 `json:"minimumHistorySeconds,omitempty"`

	// Whether to roll out even if no pod may be running during the rollout. This is the case with
	// the strategy Recreate, or if maxUnavailable allows all pods to be unavailable at once, as
	// with a single replica and no surge.
	// +optional
	AllowOutage bool `json:"allowOutage,omitempty"`
}
