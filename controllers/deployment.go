package controllers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Labels of every Deployment of ours and of its pods. The usual app.kubernetes.io/instance is
// not among them: the Services and Deployments of a Helm release select pods by it and by the
// name, and would select ours where an object has the release's name.
const (
	nameLabel        = "app.kubernetes.io/name"
	deploymentLabel  = "upright.example.com/deployment"
	managedByLabel   = "app.kubernetes.io/managed-by"
	managedByUpright = "upright"
)

// workload is what the Deployments of the owning controllers differ in.
type workload struct {
	app        string // What runs in it: busybox, memcached, nginx.
	deployment string // Name of the Deployment.
	replicas   int32
	user       int64 // The UID that the container runs as.
	container  *corev1ac.ContainerApplyConfiguration
	volumes    []*corev1ac.VolumeApplyConfiguration
}

// ownedDeployment returns the Deployment that runs w for its owner. Its pods meet the
// restricted Pod Security Standard. Its selector is unique among all Deployments of the
// namespace: no other of ours has the same deployment label, and nobody else's has one.
func ownedDeployment(w workload, owner metav1.Object, kind schema.GroupVersionKind) *appsv1ac.DeploymentApplyConfiguration {
	labels := map[string]string{
		nameLabel:       w.app,
		deploymentLabel: w.deployment,
		managedByLabel:  managedByUpright,
	}
	return appsv1ac.Deployment(w.deployment, owner.GetNamespace()).
		WithLabels(labels).
		WithOwnerReferences(controllerReference(owner, kind)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(w.replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(corev1ac.PodSpec().
					WithAutomountServiceAccountToken(false).
					WithSecurityContext(corev1ac.PodSecurityContext().
						WithRunAsNonRoot(true).
						WithRunAsUser(w.user).
						WithSeccompProfile(corev1ac.SeccompProfile().
							WithType(corev1.SeccompProfileTypeRuntimeDefault))).
					WithVolumes(w.volumes...).
					WithContainers(w.container.
						WithSecurityContext(corev1ac.SecurityContext().
							WithAllowPrivilegeEscalation(false).
							WithReadOnlyRootFilesystem(true).
							WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))))))
}

func controllerReference(owner metav1.Object, kind schema.GroupVersionKind) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(kind.GroupVersion().String()).
		WithKind(kind.Kind).
		WithName(owner.GetName()).
		WithUID(owner.GetUID()).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// resourceRequirements returns the apply configuration of r.
func resourceRequirements(r corev1.ResourceRequirements) *corev1ac.ResourceRequirementsApplyConfiguration {
	requirements := corev1ac.ResourceRequirements()
	if r.Requests != nil {
		requirements.WithRequests(r.Requests)
	}
	if r.Limits != nil {
		requirements.WithLimits(r.Limits)
	}
	return requirements
}
