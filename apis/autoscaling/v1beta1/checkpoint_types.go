package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ContainerCheckpoint is the usage history of a container.
type ContainerCheckpoint struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Usage history, in the manager's own encoding.
	History []byte `json:"history"`
}

// OOMKill identifies an OOM kill that has already been counted.
type OOMKill struct {
	// UID of the pod.
	PodUID types.UID `json:"podUID"`

	// Name of the container.
	ContainerName string `json:"containerName"`

	// Time when the container terminated.
	FinishedAt metav1.Time `json:"finishedAt"`

	// Memory that was in force, in bytes: the limit of the container, or its request if it had no
	// limit.
	// +optional
	Memory int64 `json:"memory,omitempty"`

	// Run of the container that was observed last.
	// +optional
	Run *ContainerRun `json:"run,omitempty"`
}

// ContainerRun is the time from a start of a container to its end.
type ContainerRun struct {
	// Time when the container started.
	StartedAt metav1.Time `json:"startedAt"`

	// Memory of the container in the status of the pod, in bytes.
	ReportedMemory int64 `json:"reportedMemory"`

	// Memory that the container really has, in bytes. It is less than the reported memory if the
	// pod was resized while the container did not run.
	MemoryInForce int64 `json:"memoryInForce"`
}

// PastTarget is a target that was recommended in the past.
type PastTarget struct {
	// Name of the container.
	ContainerName string `json:"containerName"`

	// Name of the resource.
	Resource ControlledResource `json:"resource"`

	// Start of the time that this target covers. This time can also include earlier targets that
	// were between this target and the ones after it.
	Since metav1.Time `json:"since"`

	// Amount in milli-CPU or bytes.
	Amount int64 `json:"amount"`
}

// VerticalScalerCheckpointData is the data of a VerticalScalerCheckpoint.
type VerticalScalerCheckpointData struct {
	// Name of the Deployment that the data was collected from.
	DeploymentName string `json:"deploymentName"`

	// Usage history of each container.
	// +listType=map
	// +listMapKey=containerName
	// +optional
	Containers []ContainerCheckpoint `json:"containers,omitempty"`

	// OOM kills in current pods that have already been counted. The list prevents an OOM kill from
	// being counted twice.
	// +listType=atomic
	// +optional
	OOMKills []OOMKill `json:"oomKills,omitempty"`

	// Targets of the past 7 days. They show for how long the requests of pods have differed from
	// the recommendation. Each target was valid until the next one for the same container and
	// resource.
	// +listType=atomic
	// +optional
	Targets []PastTarget `json:"targets,omitempty"`

	// Whether usage from before the creation of the VerticalScaler has been loaded.
	// +optional
	Backfilled bool `json:"backfilled,omitempty"`

	// Past usage that has not been loaded yet. The newest usage is loaded first.
	// +optional
	BackfillLeft *TimeRange `json:"backfillLeft,omitempty"`

	// Containers whose usage history was lost because an earlier checkpoint could not be read, and
	// is not complete again; "*" stands for all containers.
	// +listType=set
	// +optional
	LostContainers []string `json:"lostContainers,omitempty"`

	// Time when the manager that wrote the data became the leader. A leader does not replace the
	// data of a later one.
	// +optional
	LeaderSince *metav1.MicroTime `json:"leaderSince,omitempty"`
}

// TimeRange is the time from one time to another.
type TimeRange struct {
	// Start of the range.
	From metav1.Time `json:"from"`

	// End of the range.
	To metav1.Time `json:"to"`
}

// VerticalScalerCheckpoint saves the usage history of the VerticalScaler with the same name. The
// manager writes it, and reads it after a restart. It is deleted together with the VerticalScaler.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vscp
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.data.deploymentName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VerticalScalerCheckpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Saved usage history.
	Data VerticalScalerCheckpointData `json:"data"`

	// Data of an earlier checkpoint that the manager could not read, because it is damaged or has
	// the encoding of a newer version. The manager keeps it here when it writes new data.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Unreadable *runtime.RawExtension `json:"unreadable,omitempty"`
}

// VerticalScalerCheckpointList is a list of VerticalScalerCheckpoints.
//
// +kubebuilder:object:root=true
type VerticalScalerCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VerticalScalerCheckpoint `json:"items"`
}
