// Package owned reconciles the kinds that own a Deployment: Busybox, Memcached and Foo.
package owned

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/cache"
	"example.com/upright/mappers"
)

// Field owners of the three controllers, and the reporters of their events.
const (
	busyboxOwner   = "upright-busybox"
	memcachedOwner = "upright-memcached"
	fooOwner       = "upright-foo"
)

// AddToManager adds the controllers of Busybox, Memcached and Foo to the manager. It calls
// newOptions once for each controller, because controllers must not share a rate limiter.
func AddToManager(mgr ctrl.Manager, mapper *mappers.Mappers, newOptions func() controller.Options) error {
	foo := &FooReconciler{newDeploymentReconciler(mgr, fooOwner)}
	foo.recordCreation = true
	for _, owner := range []struct {
		kind           client.Object
		fromDeployment handler.EventHandler
		reconciler     reconcile.Reconciler
	}{
		{&examplev1alpha1.Busybox{}, mapper.DeploymentToBusyboxes(),
			&BusyboxReconciler{newDeploymentReconciler(mgr, busyboxOwner)}},
		{&cachev1alpha1.Memcached{}, mapper.DeploymentToMemcacheds(),
			&MemcachedReconciler{newDeploymentReconciler(mgr, memcachedOwner)}},
		{&examplev1alpha1.Foo{}, mapper.DeploymentToFoos(), foo},
	} {
		// A name that becomes free can reach either informer last, so both trigger a reconcile.
		err := ctrl.NewControllerManagedBy(mgr).
			For(owner.kind, builder.WithPredicates(ownerChanged())).
			Owns(&appsv1.Deployment{}).
			Watches(&appsv1.Deployment{}, owner.fromDeployment, builder.WithPredicates(controllerChanged())).
			WatchesMetadata(cache.NewDeploymentMetadata(), owner.fromDeployment, builder.WithPredicates(controllerChanged())).
			WithOptions(newOptions()).
			Complete(owner.reconciler)
		if err != nil {
			return fmt.Errorf("add the controller of %T: %w", owner.kind, err)
		}
	}
	return nil
}

func newDeploymentReconciler(mgr ctrl.Manager, name string) deploymentReconciler {
	return deploymentReconciler{
		Client: mgr.GetClient(), recorder: mgr.GetEventRecorder(name), fieldOwner: client.FieldOwner(name),
	}
}
