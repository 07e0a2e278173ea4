package owned

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/indexers"
)

// newDirectClient returns a client that reads from the API server and behaves like the manager's
// client, which reads from a cache: objects have their kind set, and Deployments are listed by
// the index of their controller. All other requests, and reads if funcs has a Get, go through
// funcs.
func newDirectClient(t *testing.T, funcs interceptor.Funcs) client.Client {
	t.Helper()
	require.Nil(t, funcs.List)
	get := funcs.Get
	if get == nil {
		get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return c.Get(ctx, key, obj, opts...)
		}
	}
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := get(ctx, c, key, obj, opts...); err != nil {
			return err
		}
		gvk, err := c.GroupVersionKindFor(obj)
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		return err
	}
	funcs.List = listByController
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	return interceptor.NewClient(c, funcs)
}

// listByController lists the Deployments of a controller without an index. The API server itself
// lists Foos by the name of their Deployment.
func listByController(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	field, uid, _ := strings.Cut(options.FieldSelector.String(), "=")
	if field == indexers.FooDeploymentName {
		return c.List(ctx, list, &options)
	}
	deployments, ok := list.(*appsv1.DeploymentList)
	if !ok || field != indexers.DeploymentController {
		return fmt.Errorf("no index %q of %T", field, list)
	}
	if err := c.List(ctx, list, client.InNamespace(options.Namespace)); err != nil {
		return err
	}
	deployments.Items = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool {
		controller := metav1.GetControllerOf(&d)
		return controller == nil || string(controller.UID) != uid
	})
	return nil
}

// onDeploymentApply calls check before each apply of a Deployment. An error of check replaces
// the apply.
func onDeploymentApply(check func(*appsv1ac.DeploymentApplyConfiguration) error) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if d, ok := obj.(*appsv1ac.DeploymentApplyConfiguration); ok {
				if err := check(d); err != nil {
					return err
				}
			}
			return c.Apply(ctx, obj, opts...)
		},
	}
}

// onStatusApply calls check before each apply of a status. An error of check replaces the apply.
func onStatusApply(check func(context.Context) error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceApply: func(
			ctx context.Context, c client.Client, subresource string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
		) error {
			if err := check(ctx); err != nil {
				return err
			}
			return c.SubResource(subresource).Apply(ctx, obj, opts...)
		},
	}
}
