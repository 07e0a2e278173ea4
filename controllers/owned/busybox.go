package owned

import (
	"context"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// +kubebuilder:rbac:groups=example.com,resources=busyboxes,verbs=list;watch
// +kubebuilder:rbac:groups=example.com,resources=busyboxes/status,verbs=patch
// +kubebuilder:rbac:groups=example.com,resources=busyboxes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// BusyboxReconciler keeps a Deployment of the same name for each Busybox.
type BusyboxReconciler struct {
	deploymentReconciler
}

// Reconcile applies the Deployment of a Busybox and publishes its status.
func (r *BusyboxReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	busybox := &examplev1alpha1.Busybox{}
	if err := r.Get(ctx, req.NamespacedName, busybox); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !busybox.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the Deployment.
	}
	if problem := busybox.Spec.DecodeError; problem != "" {
		return r.reportInvalid(ctx, busybox, busybox.Status, problem)
	}
	_, result, err := r.reconcileDeployment(ctx, busybox, busybox.Status, busyboxDeployment(busybox))
	return result, err
}

// busyboxDeployment returns the desired Deployment of a Busybox.
func busyboxDeployment(busybox *examplev1alpha1.Busybox) *appsv1ac.DeploymentApplyConfiguration {
	return ownedDeployment(workload{
		app:        "busybox",
		deployment: busybox.Name,
		replicas:   ptr.Deref(busybox.Spec.Size, 1),
		user:       65534, // nobody
		container: corev1ac.Container().
			WithName("busybox").
			WithImage(busybox.Spec.Image).
			// As process 1, a shell ignores SIGTERM unless it has a trap.
			WithCommand("sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done").
			WithResources(resourceRequirements(busybox.Spec.Resources.Requirements())),
	}, busybox, examplev1alpha1.GroupVersion.WithKind("Busybox"))
}
