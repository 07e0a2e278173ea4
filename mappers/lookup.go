package mappers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/indexers"
)

// lookup returns requests for the objects that refer to key, the key of a Deployment or of
// another object.
type lookup func(ctx context.Context, key types.NamespacedName) ([]reconcile.Request, error)

// findByName returns a lookup of the object with the given key. The lookup reads into newObject's result.
func (m *Mappers) findByName(newObject func() client.Object) lookup {
	return func(ctx context.Context, key types.NamespacedName) ([]reconcile.Request, error) {
		err := m.reader.Get(ctx, key, newObject(), client.UnsafeDisableDeepCopy) // Only its existence matters.
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get by name: %w", err)
		}
		return []reconcile.Request{{NamespacedName: key}}, nil
	}
}

// findFoos finds the Foos that name a Deployment.
func (m *Mappers) findFoos(ctx context.Context, deployment types.NamespacedName) ([]reconcile.Request, error) {
	var foos examplev1alpha1.FooList
	err := m.listByField(ctx, &foos, indexers.FooDeploymentName, deployment)
	return requestsFor(foos.Items), err
}

// findVerticalScalers finds the VerticalScalers that target a Deployment.
func (m *Mappers) findVerticalScalers(ctx context.Context, deployment types.NamespacedName) ([]reconcile.Request, error) {
	var scalers autoscalingv1beta1.VerticalScalerList
	err := m.listByField(ctx, &scalers, indexers.VerticalScalerDeploymentName, deployment)
	return requestsFor(scalers.Items), err
}

// findVerticalScalersOfNamespace finds all VerticalScalers in the namespace of key.
func (m *Mappers) findVerticalScalersOfNamespace(ctx context.Context, key types.NamespacedName) ([]reconcile.Request, error) {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := m.reader.List(ctx, &scalers, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list by namespace: %w", err)
	}
	return requestsFor(scalers.Items), nil
}

// listByField lists the objects in the namespace of key that have its name in an indexed field.
func (m *Mappers) listByField(
	ctx context.Context, list client.ObjectList, field string, key types.NamespacedName,
) error {
	err := m.reader.List(ctx, list, &client.ListOptions{
		Namespace:             key.Namespace,
		FieldSelector:         fields.OneTermEqualSelector(field, key.Name),
		UnsafeDisableDeepCopy: new(true), // Only names are read.
	})
	if err != nil {
		return fmt.Errorf("list by %s: %w", field, err)
	}
	return nil
}

// requestsFor returns a request for each item of a list.
func requestsFor[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	requests := make([]reconcile.Request, len(items))
	for i := range items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(P(&items[i]))
	}
	return requests
}
