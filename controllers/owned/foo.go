package owned

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// +kubebuilder:rbac:groups=example.com,resources=foos,verbs=list;watch
// +kubebuilder:rbac:groups=example.com,resources=foos/status,verbs=patch
// +kubebuilder:rbac:groups=example.com,resources=foos/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=delete

// fooImage is an nginx that does not run as root.
const fooImage = "nginxinc/nginx-unprivileged:1.27.5-alpine"

// FooReconciler keeps a Deployment for each Foo, under the name in the Foo's spec.
type FooReconciler struct {
	deploymentReconciler
}

// Reconcile applies the Deployment of a Foo and publishes its status. When that Deployment is
// available, it gives up the Deployments of previous names.
func (r *FooReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	foo := &examplev1alpha1.Foo{}
	if err := r.Get(ctx, req.NamespacedName, foo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !foo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the Deployment.
	}
	if problem := foo.Spec.DecodeError; problem != "" {
		return r.reportInvalid(ctx, foo, foo.Status, problem)
	}
	status, result, err := r.reconcileDeployment(ctx, foo, foo.Status, fooDeployment(foo))
	if err != nil {
		return result, err
	}
	switch available := meta.FindStatusCondition(status.Conditions, examplev1alpha1.ConditionAvailable); {
	case available == nil:
	case available.Status == metav1.ConditionTrue:
		err = r.giveUpPrevious(ctx, foo)
	case available.Reason == examplev1alpha1.ReasonDeploymentNameTaken:
		err = r.breakCycle(ctx, foo)
	}
	return result, err
}

// fooDeployment returns the desired Deployment of a Foo.
func fooDeployment(foo *examplev1alpha1.Foo) *appsv1ac.DeploymentApplyConfiguration {
	return ownedDeployment(workload{
		app:        "nginx",
		deployment: foo.Spec.DeploymentName,
		replicas:   ptr.Deref(foo.Spec.Replicas, 1),
		user:       101, // nginx, in the image
		container: corev1ac.Container().
			WithName("nginx").
			WithImage(fooImage).
			WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(8080)).
			WithVolumeMounts(corev1ac.VolumeMount().WithName("tmp").WithMountPath("/tmp")).
			WithResources(resourceRequirements(foo.Spec.Resources.Requirements())),
		volumes: []*corev1ac.VolumeApplyConfiguration{
			corev1ac.Volume().WithName("tmp").WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		},
	}, foo, examplev1alpha1.GroupVersion.WithKind("Foo"))
}
