package controllers

import (
	"context"
	"fmt"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// statusApplyConfiguration is the apply configuration of one of our kinds' status.
type statusApplyConfiguration[S any] struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata"`
	Status                                 S `json:"status"`
}

// IsApplyConfiguration marks the type as an apply configuration.
func (*statusApplyConfiguration[S]) IsApplyConfiguration() {}

// applyStatus writes the whole status of an object as it was read. Its resource version goes
// along, so that neither an object created anew under the name nor a spec that was changed
// meanwhile gets a status that does not speak of it: that is a conflict, and what has been
// changed is about to be looked at anyway. (The API server ignores the UID here: it checks
// that of a custom resource's status against nothing.)
func applyStatus[S any](ctx context.Context, c client.Client, owner client.FieldOwner, obj client.Object, status S) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	configuration := &statusApplyConfiguration[S]{
		TypeMetaApplyConfiguration: *metav1ac.TypeMeta().
			WithAPIVersion(gvk.GroupVersion().String()).
			WithKind(gvk.Kind),
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().
			WithNamespace(obj.GetNamespace()).
			WithName(obj.GetName()).
			WithResourceVersion(obj.GetResourceVersion()),
		Status: status,
	}
	if err := c.Status().Apply(ctx, configuration, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply status: %w", err)
	}
	return nil
}
