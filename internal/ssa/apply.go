package ssa

import (
	"context"
	"fmt"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// statusConfiguration is the apply configuration of a status.
type statusConfiguration[S any] struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata"`
	Status                                 S `json:"status"`
}

// IsApplyConfiguration marks the type as an apply configuration.
func (*statusConfiguration[S]) IsApplyConfiguration() {}

// ApplyStatus applies the whole status of an object, for the resource version that was read.
// If the spec has changed since, or the object was re-created, the API server returns a
// conflict, and the status of an object that no longer exists is not written. (The UID would
// not do: the API server does not compare it when it applies the status of a custom resource.)
func ApplyStatus[S any](ctx context.Context, c client.Client, fieldOwner client.FieldOwner, obj client.Object, status S) error {
	typeMeta, err := typeMetaOf(c, obj)
	if err != nil {
		return err
	}
	configuration := &statusConfiguration[S]{
		TypeMetaApplyConfiguration: *typeMeta,
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().
			WithNamespace(obj.GetNamespace()).
			WithName(obj.GetName()).
			WithResourceVersion(obj.GetResourceVersion()),
		Status: status,
	}
	if err := c.Status().Apply(ctx, configuration, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply status: %w", err)
	}
	return nil
}

func typeMetaOf(c client.Client, obj client.Object) (*metav1ac.TypeMetaApplyConfiguration, error) {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return nil, fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	return metav1ac.TypeMeta().WithAPIVersion(gvk.GroupVersion().String()).WithKind(gvk.Kind), nil
}
