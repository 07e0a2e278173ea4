package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of the conditions of an object that owns a Deployment.
const (
	// ConditionReady is True when the observed state matches the spec. It is the condition to wait
	// for.
	ConditionReady = "Ready"
	// ConditionAvailable is True when every replica of the current generation is available.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the Deployment is rolled out to the current generation.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when there is a problem that waiting alone does not solve.
	ConditionDegraded = "Degraded"
)

// Reasons of these conditions.
const (
	// ReasonPending means that no controller has reconciled the object yet.
	ReasonPending = "Pending"
	// ReasonAsExpected means that there are no problems.
	ReasonAsExpected = "AsExpected"
	// ReasonRolloutInProgress means that the Deployment does not match the spec yet.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonRolloutComplete means that the Deployment runs the current generation.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonReplicasUnavailable means that replicas became unavailable after the rollout was complete.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonProgressDeadlineExceeded means that the rollout has made no progress for too long.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonPodsRefused means that the API server rejects new pods because of a quota or a policy.
	ReasonPodsRefused = "PodsRefused"
	// ReasonSpecInvalid means that the spec cannot be decoded. The Deployment stays as it is.
	ReasonSpecInvalid = "SpecInvalid"
	// ReasonDeploymentNameTaken means that a Deployment with the name exists, but this object is not
	// its owner.
	ReasonDeploymentNameTaken = "DeploymentNameTaken"
	// ReasonDeploymentRefused means that the API server rejects the Deployment as invalid.
	ReasonDeploymentRefused = "DeploymentRefused"
	// ReasonApplyFailed means that the Deployment could not be written. The controller retries.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonDeploymentTerminating means that the controller waits for the deletion of the
	// Deployment.
	ReasonDeploymentTerminating = "DeploymentTerminating"
)

// DeploymentStatus is the observed state of an object that owns a Deployment.
type DeploymentStatus struct {
	// Generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Number of pods of the Deployment. During the first minute of a rollout, this is the number
	// at the start of the rollout.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of available pods of the Deployment. During the first minute of a rollout, this is
	// the number at the start of the rollout.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// Label selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Conditions of the object: Ready, Available, Progressing and Degraded. Ready is the condition
	// to wait for.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
