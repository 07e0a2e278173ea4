// Package container defines the resources of a container for the kinds that run one.
//
// +kubebuilder:object:generate=true
package container

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts are amounts of CPU and memory.
//
// The rules of amounts check the exponent first: it has two digits at most. Parsing takes a time that
// grows with the exponent, and an exponent of ten digits keeps the API server busy forever.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || (!string(self.cpu).matches('[eE].*[0-9.]{3}') && quantity(string(self.cpu)).compareTo(quantity('0')) >= 0 && quantity(string(self.cpu)).compareTo(quantity('1M')) <= 0)",message="cpu must be from 0 to 1M cores: use an amount such as 250m"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || (!string(self.memory).matches('[eE].*[0-9.]{3}') && quantity(string(self.memory)).compareTo(quantity('0')) >= 0 && quantity(string(self.memory)).compareTo(quantity('1Ei')) <= 0)",message="memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"
type Amounts struct {
	// Amount of CPU in cores, such as 250m or 2.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Amount of memory in bytes, such as 64Mi or 2Gi.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Resources are the requests and limits of a container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.cpu) || !has(self.limits.cpu) || string(self.requests.cpu).matches('[eE].*[0-9.]{3}') || string(self.limits.cpu).matches('[eE].*[0-9.]{3}') || quantity(string(self.requests.cpu)).compareTo(quantity(string(self.limits.cpu))) <= 0",message="resources.requests.cpu must be at most resources.limits.cpu: raise the limit or lower the request"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.memory) || !has(self.limits.memory) || string(self.requests.memory).matches('[eE].*[0-9.]{3}') || string(self.limits.memory).matches('[eE].*[0-9.]{3}') || quantity(string(self.requests.memory)).compareTo(quantity(string(self.limits.memory))) <= 0",message="resources.requests.memory must be at most resources.limits.memory: raise the limit or lower the request"
type Resources struct {
	// CPU and memory that the container gets at least. The scheduler reserves them on a node.
	// +optional
	Requests Amounts `json:"requests,omitzero"`

	// CPU and memory that the container gets at most.
	// +optional
	Limits Amounts `json:"limits,omitzero"`
}

// Requirements returns the resources in the form that a pod has them.
func (r *Resources) Requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: r.Requests.list(), Limits: r.Limits.list()}
}

// list returns the amounts as a resource list, or nil if there are none.
func (a *Amounts) list() corev1.ResourceList {
	var list corev1.ResourceList
	for name, amount := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU: a.CPU, corev1.ResourceMemory: a.Memory,
	} {
		if amount == nil {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = *amount
	}
	return list
}
