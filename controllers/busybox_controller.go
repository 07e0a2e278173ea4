package controllers

import (
	"context"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/mappers"
)

// +kubebuilder:rbac:groups=example.com,resources=busyboxes,verbs=list;watch
// +kubebuilder:rbac:groups=example.com,resources=busyboxes/status,verbs=patch
// +kubebuilder:rbac:groups=example.com,resources=busyboxes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// BusyboxReconciler keeps, for each Busybox, the Deployment of its name.
type BusyboxReconciler struct {
	deploymentOwner
}

// Reconcile brings a Busybox's Deployment to its spec and its status to the truth.
func (r *BusyboxReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	busybox := &examplev1alpha1.Busybox{}
	if err := r.Get(ctx, req.NamespacedName, busybox); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !busybox.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector takes the Deployment away.
	}
	_, result, err := r.keep(ctx, busybox, busybox.Status, busyboxDeployment(busybox))
	return result, err
}

// busyboxDeployment returns the Deployment that a Busybox asks for.
func busyboxDeployment(busybox *examplev1alpha1.Busybox) *appsv1ac.DeploymentApplyConfiguration {
	return ownedDeployment(workload{
		app:        "busybox",
		deployment: busybox.Name,
		replicas:   ptr.Deref(busybox.Spec.Size, 1),
		user:       65534, // nobody
		container: corev1ac.Container().
			WithName("busybox").
			WithImage(busybox.Spec.Image).
			// A shell does not end on SIGTERM by itself where it is process 1.
			WithCommand("sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done").
			WithResources(resourceRequirements(busybox.Spec.Resources)),
	}, busybox, examplev1alpha1.GroupVersion.WithKind("Busybox"))
}

func (r *BusyboxReconciler) setup(mgr ctrl.Manager, with shared) error {
	named := mappers.DeploymentToBusyboxes(mgr.GetCache(), with.mapFailures)
	return setupOwner(mgr, with, &examplev1alpha1.Busybox{}, named, r)
}
