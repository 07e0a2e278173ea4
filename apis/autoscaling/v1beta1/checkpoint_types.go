package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ContainerCheckpoint is what has been learned of a container.
type ContainerCheckpoint struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Usage seen so far, as the manager encodes it.
	History []byte `json:"history"`
}

// OOMKill is an end of a container for lack of memory that counts already.
type OOMKill struct {
	// Unique id of the pod.
	PodUID types.UID `json:"podUID"`

	// Name of the container.
	ContainerName string `json:"containerName"`

	// When the container ended.
	FinishedAt metav1.Time `json:"finishedAt"`
}

// ToldTarget is a target that was recommended from a time on.
type ToldTarget struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// The resource.
	Resource ControlledResource `json:"resource"`

	// When it was recommended, or another between it and those after it.
	Since metav1.Time `json:"since"`

	// Amount, in thousandths of a core, or bytes.
	Amount int64 `json:"amount"`
}

// VerticalScalerCheckpointData is what a VerticalScaler has learned.
type VerticalScalerCheckpointData struct {
	// Name of the Deployment whose usage it is.
	DeploymentName string `json:"deploymentName"`

	// What has been learned of each container.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Containers []ContainerCheckpoint `json:"containers,omitempty"`

	// OOM kills of present pods that count already, so that none counts twice.
	// +listType=atomic
	// +optional
	OOMKills []OOMKill `json:"oomKills,omitempty"`

	// Targets of the past days, by which it can be told for how long pods have been off. Each
	// held until the next of the same container and resource.
	// +listType=atomic
	// +optional
	Targets []ToldTarget `json:"targets,omitempty"`

	// Whether usage from before the VerticalScaler was created has been loaded.
	// +optional
	Backfilled bool `json:"backfilled,omitempty"`
}

// VerticalScalerCheckpoint is what the VerticalScaler of the same name has learned, kept by
// the manager for its own next start. It is deleted with the VerticalScaler.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vscp
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.data.deploymentName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VerticalScalerCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What has been learned.
	Data VerticalScalerCheckpointData `json:"data"`
}

// VerticalScalerCheckpointList is a list of VerticalScalerCheckpoints.
//
// +kubebuilder:object:root=true
type VerticalScalerCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VerticalScalerCheckpoint `json:"items"`
}
