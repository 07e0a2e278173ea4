package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of the conditions of an object that owns a Deployment.
const (
	// ConditionReady is the one to wait for: True when the object is as its spec asks.
	ConditionReady = "Ready"
	// ConditionAvailable is True when every replica of the current generation is available.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the Deployment is on its way to the current generation.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when something is wrong that a rollout alone does not mend.
	ConditionDegraded = "Degraded"
)

// Reasons of those conditions.
const (
	// ReasonPending says that no controller has looked at the object yet.
	ReasonPending = "Pending"
	// ReasonAsExpected says that all is well.
	ReasonAsExpected = "AsExpected"
	// ReasonRolloutInProgress says that the Deployment is not yet what the spec asks for.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonRolloutComplete says that the Deployment runs the current generation.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonReplicasUnavailable says that replicas were lost after the rollout was complete.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonProgressDeadlineExceeded says that the rollout has made no progress for too long.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonPodsRefused says that the API server refuses to create pods, for a quota or a policy.
	ReasonPodsRefused = "PodsRefused"
	// ReasonDeploymentNameTaken says that a Deployment of the name exists and is not this object's.
	ReasonDeploymentNameTaken = "DeploymentNameTaken"
	// ReasonDeploymentRefused says that the API server refuses the Deployment as invalid.
	ReasonDeploymentRefused = "DeploymentRefused"
	// ReasonApplyFailed says that the Deployment could not be written; it is tried again.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonDeploymentTerminating says that the Deployment is being deleted and is awaited to go.
	ReasonDeploymentTerminating = "DeploymentTerminating"
)

// DeploymentStatus is the state of an object that owns a Deployment.
type DeploymentStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Number of pods the Deployment has. While a rollout is less than a minute old, the
	// number at its start.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of pods that are available. While a rollout is less than a minute old, the
	// number at its start.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// Label selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Conditions: Ready (wait for this one), Available, Progressing and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
