package indexers

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A HorizontalPodAutoscaler scales a Deployment itself, or the object that controls the Deployment,
// through that object's scale subresource. The two indexes have the same values: the kind, group
// and name of such an object. The version does not matter.
const (
	// HorizontalPodAutoscalerTarget indexes HorizontalPodAutoscalers by the object that they scale.
	HorizontalPodAutoscalerTarget = "spec.scaleTargetRef"
	// DeploymentControllerTarget indexes the metadata of Deployments by their controller, as the
	// target of HorizontalPodAutoscalers.
	DeploymentControllerTarget = "metadata.ownerReferences.scaleTarget"
)

const deploymentPrefix = "Deployment." + appsv1.GroupName + "/"

// ScaleTargetOf returns the object that a HorizontalPodAutoscaler scales, as a value of the
// indexes. It returns "" if the reference is invalid.
func ScaleTargetOf(obj client.Object) string {
	hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return ""
	}
	target := hpa.Spec.ScaleTargetRef
	return scaleTarget(target.APIVersion, target.Kind, target.Name)
}

// ScaleTargetsOfDeployment returns the objects through which a HorizontalPodAutoscaler can scale a
// Deployment, as values of the indexes: the Deployment and its controller. The controller of the
// controller is unknown.
func ScaleTargetsOfDeployment(deployment client.Object) []string {
	return append(controllerTarget(deployment), deploymentPrefix+deployment.GetName())
}

// DeploymentOfScaleTarget returns the name of the Deployment that a value of the indexes stands for.
// It reports false if the value stands for an object of another kind.
func DeploymentOfScaleTarget(target string) (name string, is bool) {
	return strings.CutPrefix(target, deploymentPrefix)
}

func horizontalPodAutoscalerTarget(obj client.Object) []string {
	if target := ScaleTargetOf(obj); target != "" {
		return []string{target}
	}
	return nil
}

func controllerTarget(obj client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(obj)
	if controller == nil {
		return nil
	}
	if target := scaleTarget(controller.APIVersion, controller.Kind, controller.Name); target != "" {
		return []string{target}
	}
	return nil
}

func scaleTarget(apiVersion, kind, name string) string {
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" || name == "" {
		return ""
	}
	return group.WithKind(kind).GroupKind().String() + "/" + name
}

// newDeploymentMetadata returns the empty metadata of a Deployment.
func newDeploymentMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return metadata
}
