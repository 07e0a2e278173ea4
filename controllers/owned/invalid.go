package owned

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/ownedstatus"
)

// reportInvalid publishes that an owner's spec cannot be decoded. The Deployment stays as it is, and
// the watch delivers the corrected spec.
func (r *deploymentReconciler) reportInvalid(
	ctx context.Context, owner client.Object, previous examplev1alpha1.DeploymentStatus, problem string,
) (ctrl.Result, error) {
	status, _ := ownedstatus.Status(previous, ownedstatus.Observation{
		Generation: owner.GetGeneration(), Err: &ownedstatus.SpecInvalidError{Problem: problem}, Now: time.Now(),
	})
	return ctrl.Result{}, r.writeStatus(ctx, owner, previous, status)
}
