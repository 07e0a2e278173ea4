package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SizeTableName is the name of the one SizeTable of a namespace.
const SizeTableName = "upright"

// ContainerSize is the size of a container in a new pod.
type ContainerSize struct {
	// Requests of the container. If the container has a lower limit, the request is not set. If its
	// limit is not the one in templateLimits, the request is set only below the limit, and only if the
	// container's own request does not equal the limit.
	// +mapType=atomic
	Requests corev1.ResourceList `json:"requests"`

	// Limits of the container. A limit is set only if the container's own limit is the one in
	// templateLimits, and equals the request either in both or in neither.
	// +mapType=atomic
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// The container's own limits in the Deployment's pod template, for which limits was computed.
	// +mapType=atomic
	// +optional
	TemplateLimits corev1.ResourceList `json:"templateLimits,omitempty"`
}

// PodSize is the size of the new pods of a Deployment, by container name.
type PodSize map[string]ContainerSize

// SizeTable holds the sizes of new pods in its namespace. The API server looks up the size of each
// pod that a Deployment creates (MutatingAdmissionPolicy upright-sizing). The manager writes it
// from the status of the namespace's VerticalScalers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=szt
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'upright'",message="metadata.name must be upright: a namespace has one SizeTable"
type SizeTable struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Size of new pods, by the name of their Deployment.
	// +mapType=atomic
	// +optional
	Deployments map[string]PodSize `json:"deployments,omitempty"`

	// DecodeError is set if the sizes cannot be decoded. Deployments is empty then.
	DecodeError string `json:"-"`
}

// SizeTableList is a list of SizeTables.
//
// +kubebuilder:object:root=true
type SizeTableList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SizeTable `json:"items"`
}
