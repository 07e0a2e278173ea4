package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/apis/container"
)

// MemcachedSpec is the desired state of a Memcached.
type MemcachedSpec struct {
	// Number of desired pods, from 1 to 3.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3",message="size must be 1, 2 or 3"
	// +kubebuilder:default=1
	// +optional
	Size *int32 `json:"size,omitempty"`

	// Container image to run.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="image must be an image reference without spaces, such as memcached:1.6.26-alpine3.19"
	// +kubebuilder:default="memcached:1.6.26-alpine3.19"
	// +optional
	Image string `json:"image,omitempty"`

	// Requests and limits of the container. Memcached runs with a memory limit of 64 MiB for
	// items.
	// +kubebuilder:default={requests: {cpu: "50m", memory: "80Mi"}, limits: {cpu: "500m", memory: "128Mi"}}
	// +optional
	Resources container.Resources `json:"resources,omitzero"`

	// DecodeError describes the fields that cannot be decoded, and is empty if there are none. These
	// fields have their zero value, so the spec must not be acted on.
	DecodeError string `json:"-"`
}

// MemcachedStatus is the observed state of a Memcached.
type MemcachedStatus struct {
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

	// Conditions of the Memcached: Ready, Available, Progressing and Degraded. Ready is the
	// condition to wait for.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Memcached runs memcached on port 11211. It owns a Deployment with the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memcacheds,shortName=mc,categories=upright
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters: use a shorter name, because it becomes a label of the pods"
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state of the Memcached.
	// +kubebuilder:default={}
	// +optional
	Spec MemcachedSpec `json:"spec,omitempty"`

	// Observed state of the Memcached.
	// +kubebuilder:default={replicas: 0, availableReplicas: 0, conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedList is a list of Memcacheds.
//
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Memcached `json:"items"`
}
