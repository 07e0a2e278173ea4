package owned

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"example.com/upright/internal/cache"
)

// Labels of the owned Deployments and their pods, beside cache.ManagedByLabel. The usual
// app.kubernetes.io/instance is not used: the Services of a Helm release select pods by it and
// by the name, and would select our pods if an object has the release's name.
const (
	nameLabel       = "app.kubernetes.io/name"
	deploymentLabel = "upright.example.com/deployment"
)

// workload is what differs between the Deployments of the three kinds.
type workload struct {
	app        string // The application: busybox, memcached or nginx.
	deployment string // Name of the Deployment.
	replicas   int32
	user       int64 // The UID that the container runs as.
	container  *corev1ac.ContainerApplyConfiguration
	volumes    []*corev1ac.VolumeApplyConfiguration
}

// ownedDeployment returns the Deployment that runs a workload for its owner. Its pods meet the
// restricted Pod Security Standard. Its selector is unique in the namespace because the
// deployment label is the Deployment's own name.
func ownedDeployment(w workload, owner metav1.Object, kind schema.GroupVersionKind) *appsv1ac.DeploymentApplyConfiguration {
	labels := map[string]string{
		nameLabel:            w.app,
		deploymentLabel:      w.deployment,
		cache.ManagedByLabel: cache.ManagedByUpright,
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

// resourceRequirements returns the apply configuration of resource requirements.
func resourceRequirements(r corev1.ResourceRequirements) *corev1ac.ResourceRequirementsApplyConfiguration {
	requirements := corev1ac.ResourceRequirements()
	if r.Requests != nil {
		requirements.WithRequests(rounded(r.Requests))
	}
	if r.Limits != nil {
		requirements.WithLimits(rounded(r.Limits))
	}
	return requirements
}

// rounded returns amounts as the API server stores them in a pod template. It rounds them up to
// thousandths (SetDefaults_ResourceList in k8s.io/kubernetes). Otherwise the live Deployment would
// differ from the desired one after each apply.
func rounded(amounts corev1.ResourceList) corev1.ResourceList {
	stored := amounts.DeepCopy()
	for name, amount := range stored {
		amount.RoundUp(resource.Milli)
		stored[name] = amount
	}
	return stored
}
