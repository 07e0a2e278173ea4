package owned

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/indexers"
)

// giveUpPrevious gives up the Foo's Deployments whose names differ from the name in its spec. If
// another Foo waits for the name, the Deployment is handed over, so that its pods go on running.
// Otherwise it is deleted.
func (r *FooReconciler) giveUpPrevious(ctx context.Context, foo *examplev1alpha1.Foo) error {
	var owned appsv1.DeploymentList
	if err := r.List(ctx, &owned,
		client.InNamespace(foo.Namespace),
		client.MatchingFields{indexers.DeploymentController: string(foo.UID)},
		client.UnsafeDisableDeepCopy, // Read-only.
	); err != nil {
		return fmt.Errorf("list the Foo's Deployments: %w", err)
	}
	for i := range owned.Items {
		previous := &owned.Items[i]
		if previous.Name == foo.Spec.DeploymentName || !previous.DeletionTimestamp.IsZero() {
			continue
		}
		heir, err := r.oldestWaiting(ctx, previous)
		if err != nil {
			return err
		}
		if heir != nil {
			err = r.handOver(ctx, previous, heir)
		} else {
			err = r.deletePrevious(ctx, previous)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// oldestWaiting returns the oldest Foo that needs the name of a Deployment, or nil.
func (r *FooReconciler) oldestWaiting(ctx context.Context, deployment *appsv1.Deployment) (*examplev1alpha1.Foo, error) {
	var waiting examplev1alpha1.FooList
	if err := r.List(ctx, &waiting,
		client.InNamespace(deployment.Namespace),
		client.MatchingFields{indexers.FooDeploymentName: deployment.Name},
	); err != nil {
		return nil, fmt.Errorf("list the Foos that need the previous name: %w", err)
	}
	foos := slices.DeleteFunc(waiting.Items, func(foo examplev1alpha1.Foo) bool { return !canTakeOver(&foo) })
	if len(foos) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(foos, func(a, b examplev1alpha1.Foo) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest, nil
}

// handOver brings a Deployment to the desired state of another Foo, which becomes its controller.
func (r *FooReconciler) handOver(ctx context.Context, deployment *appsv1.Deployment, heir *examplev1alpha1.Foo) error {
	desired := fooDeployment(heir)
	if err := annotateApplied(desired); err != nil {
		return err
	}
	if err := r.Apply(ctx, withPrecondition(desired, deployment), r.fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("hand the Deployment of the previous name over to Foo %s: %w", heir.Name, err)
	}
	r.recordSynced(heir, deployment)
	return nil
}

func (r *FooReconciler) deletePrevious(ctx context.Context, previous *appsv1.Deployment) error {
	err := r.Delete(ctx, previous.DeepCopy(),
		client.Preconditions{UID: &previous.UID, ResourceVersion: &previous.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Deployment of the previous name: %w", err)
	}
	return nil
}

// breakCycle looks for Foos that wait for each other's names, such as two Foos that swap their
// names. It follows from the Foo whose name is taken to the Foo that has the Deployment, which can
// wait for another name, and so on. If the last one waits for a Deployment of the first, that
// Deployment is handed over. A Foo that waits for a name outside a cycle keeps its Deployment.
func (r *FooReconciler) breakCycle(ctx context.Context, foo *examplev1alpha1.Foo) error {
	waiting := foo
	for visited := map[types.UID]bool{}; waiting != nil && !visited[waiting.UID]; {
		visited[waiting.UID] = true
		deployment := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: foo.Namespace, Name: waiting.Spec.DeploymentName}
		if err := r.Get(ctx, key, deployment); err != nil {
			return client.IgnoreNotFound(err) // It is free, or somebody else's.
		}
		if metav1.IsControlledBy(deployment, foo) {
			return r.handOver(ctx, deployment, waiting)
		}
		holder, err := r.fooThatControls(ctx, deployment)
		if err != nil {
			return err
		}
		waiting = holder
	}
	return nil
}

// canTakeOver reports whether a Foo can become the controller of a Deployment: its desired state is
// known.
func canTakeOver(foo *examplev1alpha1.Foo) bool {
	return foo.DeletionTimestamp.IsZero() && foo.Spec.DecodeError == ""
}

// fooThatControls returns the Foo that controls a Deployment, or nil if there is none that can take
// another one over.
func (r *FooReconciler) fooThatControls(ctx context.Context, deployment *appsv1.Deployment) (*examplev1alpha1.Foo, error) {
	controller := metav1.GetControllerOfNoCopy(deployment)
	if controller == nil {
		return nil, nil
	}
	foo := &examplev1alpha1.Foo{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: controller.Name}, foo); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if foo.UID != controller.UID || !canTakeOver(foo) {
		return nil, nil
	}
	return foo, nil
}
