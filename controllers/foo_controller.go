package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/indexers"
	"example.com/upright/mappers"
)

// +kubebuilder:rbac:groups=example.com,resources=foos,verbs=list;watch
// +kubebuilder:rbac:groups=example.com,resources=foos/status,verbs=patch
// +kubebuilder:rbac:groups=example.com,resources=foos/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=delete

// fooImage is the nginx that runs without root.
const fooImage = "nginxinc/nginx-unprivileged:1.27.5-alpine"

// FooReconciler keeps, for each Foo, the Deployment that its spec names.
type FooReconciler struct {
	deploymentOwner
}

// Reconcile brings a Foo's Deployment to its spec and its status to the truth, and then
// removes the Deployment of a former name.
func (r *FooReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	foo := &examplev1alpha1.Foo{}
	if err := r.Get(ctx, req.NamespacedName, foo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !foo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector takes the Deployment away.
	}
	status, result, err := r.keep(ctx, foo, foo.Status, fooDeployment(foo))
	if err == nil && meta.IsStatusConditionTrue(status.Conditions, examplev1alpha1.ConditionAvailable) {
		err = r.removeFormer(ctx, foo)
	}
	return result, err
}

// removeFormer deletes the Foo's Deployments of other names than its present one.
func (r *FooReconciler) removeFormer(ctx context.Context, foo *examplev1alpha1.Foo) error {
	var owned appsv1.DeploymentList
	if err := r.List(ctx, &owned,
		client.InNamespace(foo.Namespace),
		client.MatchingFields{indexers.DeploymentController: string(foo.UID)},
		client.UnsafeDisableDeepCopy, // Nothing read here is changed.
	); err != nil {
		return fmt.Errorf("list the Foo's Deployments: %w", err)
	}
	for i := range owned.Items {
		former := &owned.Items[i]
		if former.Name == foo.Spec.DeploymentName || !former.DeletionTimestamp.IsZero() {
			continue
		}
		err := r.Delete(ctx, former,
			client.Preconditions{UID: &former.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the Deployment of the former name: %w", err)
		}
	}
	return nil
}

// fooDeployment returns the Deployment that a Foo asks for.
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
			WithResources(resourceRequirements(foo.Spec.Resources)),
		volumes: []*corev1ac.VolumeApplyConfiguration{
			corev1ac.Volume().WithName("tmp").WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		},
	}, foo, examplev1alpha1.GroupVersion.WithKind("Foo"))
}

func (r *FooReconciler) setup(mgr ctrl.Manager, with shared) error {
	named := mappers.DeploymentToFoos(mgr.GetCache(), with.mapFailures)
	return setupOwner(mgr, with, &examplev1alpha1.Foo{}, named, r)
}
