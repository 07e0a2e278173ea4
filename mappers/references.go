package mappers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// references finds, through a field index, the objects of one kind that reference a Deployment by its name.
type references struct {
	reader  client.Reader
	newList func() client.ObjectList
	field   string
}

// requests returns a request for each object that references the Deployment.
func (r references) requests(ctx context.Context, deployment types.NamespacedName) ([]reconcile.Request, error) {
	list := r.newList()
	if err := r.reader.List(ctx, list,
		client.InNamespace(deployment.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(r.field, deployment.Name)},
		client.UnsafeDisableDeepCopy, // Only names are read.
	); err != nil {
		return nil, fmt.Errorf("list by %s: %w", r.field, err)
	}
	var requests []reconcile.Request
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()},
		})
		return nil
	})
	return requests, err
}
