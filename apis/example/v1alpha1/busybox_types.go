package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/apis/container"
)

// BusyboxSpec is the desired state of a Busybox.
type BusyboxSpec struct {
	// Number of desired pods, 0 or more.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="size must be 0 or more: use 0 to run no pods"
	// +kubebuilder:default=1
	// +optional
	Size *int32 `json:"size,omitempty"`

	// Container image to run. The image must contain a shell, as busybox does.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="image must be an image reference without spaces, such as busybox:1.37.0"
	// +kubebuilder:default="busybox:1.37.0"
	// +optional
	Image string `json:"image,omitempty"`

	// Requests and limits of the container.
	// +kubebuilder:default={requests: {cpu: "10m", memory: "16Mi"}, limits: {cpu: "100m", memory: "64Mi"}}
	// +optional
	Resources container.Resources `json:"resources,omitzero"`

	// DecodeError describes the fields that cannot be decoded, and is empty if there are none. These
	// fields have their zero value, so the spec must not be acted on.
	DecodeError string `json:"-"`
}

// Busybox runs pods that sleep until they are stopped. It owns a Deployment with the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bb,categories=upright
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters: use a shorter name, because it becomes a label of the pods"
type Busybox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state of the Busybox.
	// +kubebuilder:default={}
	// +optional
	Spec BusyboxSpec `json:"spec,omitempty"`

	// Observed state of the Busybox.
	// +kubebuilder:default={replicas: 0, availableReplicas: 0, conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status DeploymentStatus `json:"status,omitempty"`
}

// BusyboxList is a list of Busyboxes.
//
// +kubebuilder:object:root=true
type BusyboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Busybox `json:"items"`
}
