package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/apis/container"
)

// FooSpec is the desired state of a Foo.
type FooSpec struct {
	// Name of the Deployment to run, in the same namespace. If you change the name, the
	// Deployment with the old name is deleted after the new one is available.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="deploymentName must be a valid Deployment name: use lowercase letters, digits, '-' and '.', and start and end with a letter or digit"
	DeploymentName string `json:"deploymentName"`

	// Number of desired pods, 0 or more.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be 0 or more: use 0 to run no pods"
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Requests and limits of the nginx container.
	// +kubebuilder:default={requests: {cpu: "10m", memory: "32Mi"}, limits: {cpu: "100m", memory: "64Mi"}}
	// +optional
	Resources container.Resources `json:"resources,omitzero"`

	// DecodeError describes the fields that cannot be decoded, and is empty if there are none. These
	// fields have their zero value, so the spec must not be acted on.
	DecodeError string `json:"-"`
}

// Foo runs nginx in a Deployment that it owns. spec.deploymentName is the name of the Deployment.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=upright
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:selectablefield:JSONPath=`.spec.deploymentName`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state of the Foo.
	Spec FooSpec `json:"spec"`

	// Observed state of the Foo.
	// +kubebuilder:default={replicas: 0, availableReplicas: 0, conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status DeploymentStatus `json:"status,omitempty"`
}

// FooList is a list of Foos.
//
// +kubebuilder:object:root=true
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Foo `json:"items"`
}
