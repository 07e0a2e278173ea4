package mappers

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// references finds, through a field index, the objects of one kind that reference a Deployment
// by its name; without a field, all of the Deployment's namespace.
type references struct {
	reader  client.Reader
	newList func() client.ObjectList
	field   string
}

// requests returns a request for each object that references the Deployment.
func (r references) requests(ctx context.Context, deployment types.NamespacedName) ([]reconcile.Request, error) {
	list := r.newList()
	options := []client.ListOption{client.InNamespace(deployment.Namespace), client.UnsafeDisableDeepCopy} // Only names are read.
	if r.field != "" {
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(r.field, deployment.Name)})
	}
	if err := r.reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list by %s: %w", cmp.Or(r.field, "namespace"), err)
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
