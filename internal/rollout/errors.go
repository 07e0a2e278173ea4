package rollout

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NameTakenError says that a Deployment of the wanted name exists and is somebody else's.
type NameTakenError struct {
	Deployment string
	Controller *metav1.OwnerReference // Nil where no controller owns it.
}

// Error says whose the Deployment is and what to do.
func (e *NameTakenError) Error() string {
	owner := "is not controlled by this object"
	if e.Controller != nil {
		owner = fmt.Sprintf("belongs to %s %q", e.Controller.Kind, e.Controller.Name)
	}
	return fmt.Sprintf("Deployment %q exists and %s, so it is left as it is. "+
		"Delete it or choose another name: the name is taken as soon as it is free.", e.Deployment, owner)
}

// IsNameTaken reports whether err is a NameTakenError.
func IsNameTaken(err error) bool {
	_, taken := errors.AsType[*NameTakenError](err)
	return taken
}

// IsRefused reports whether err says that the API server finds a field invalid, so that only
// another spec helps. A policy that refuses a Deployment also says Invalid, of no field, and
// may be lifted.
func IsRefused(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsInvalid(status) || status.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field != ""
	})
}
