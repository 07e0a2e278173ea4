// Package v1beta1 contains the kinds VerticalScaler and VerticalScalerCheckpoint of the group autoscaling.example.com.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.example.com
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "autoscaling.example.com", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&VerticalScaler{}, &VerticalScalerList{},
		&VerticalScalerCheckpoint{}, &VerticalScalerCheckpointList{},
		&SizeTable{}, &SizeTableList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
