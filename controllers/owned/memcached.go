package owned

import (
	"context"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=list;watch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update

// memcachedPort is the port on which memcached listens.
const memcachedPort = 11211

// MemcachedReconciler keeps a Deployment of the same name for each Memcached.
type MemcachedReconciler struct {
	deploymentReconciler
}

// Reconcile applies the Deployment of a Memcached and publishes its status.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	memcached := &cachev1alpha1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !memcached.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the Deployment.
	}
	if problem := memcached.Spec.DecodeError; problem != "" {
		return r.reportInvalid(ctx, memcached, examplev1alpha1.DeploymentStatus(memcached.Status), problem)
	}
	_, result, err := r.reconcileDeployment(ctx, memcached, examplev1alpha1.DeploymentStatus(memcached.Status), memcachedDeployment(memcached))
	return result, err
}

// memcachedDeployment returns the desired Deployment of a Memcached.
func memcachedDeployment(memcached *cachev1alpha1.Memcached) *appsv1ac.DeploymentApplyConfiguration {
	return ownedDeployment(workload{
		app:        "memcached",
		deployment: memcached.Name,
		replicas:   ptr.Deref(memcached.Spec.Size, 1),
		user:       11211, // memcache, in the image
		container: corev1ac.Container().
			WithName("memcached").
			WithImage(memcached.Spec.Image).
			WithCommand("memcached", "--memory-limit=64", "-o", "modern", "-v").
			WithPorts(corev1ac.ContainerPort().
				WithName("memcached").
				WithContainerPort(memcachedPort)).
			WithResources(resourceRequirements(memcached.Spec.Resources.Requirements())),
	}, memcached, cachev1alpha1.GroupVersion.WithKind("Memcached"))
}
