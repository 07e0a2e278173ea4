package ownedstatus

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/cause"
)

// NameTakenError reports that a Deployment of the desired name exists and is not controlled by
// the owner.
type NameTakenError struct {
	Deployment string
	Controller *metav1.OwnerReference // The Deployment's controller, or nil.
}

// Error returns who controls the Deployment and what to do.
func (e *NameTakenError) Error() string {
	owner := "is not controlled by this object"
	if e.Controller != nil {
		owner = fmt.Sprintf("belongs to %s %q", e.Controller.Kind, e.Controller.Name)
	}
	return fmt.Sprintf("Deployment %q exists and %s. It is left unchanged. "+
		"Delete it or choose another name. When the name is free, a new Deployment is created.", e.Deployment, owner)
}

// IsNameTaken reports whether err is a NameTakenError.
func IsNameTaken(err error) bool {
	_, taken := errors.AsType[*NameTakenError](err)
	return taken
}

// IsRefused reports whether the API server rejects a field of the object as invalid, so that
// only another spec helps. An admission policy's error can be Invalid too, but it names no
// field. It does not count because the policy can change.
func IsRefused(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsInvalid(status) || status.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field != ""
	})
}

// repeatable returns a text for an error that is the same each time the same error repeats.
func repeatable(err error) string {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsForbidden(status) && !apierrors.IsInvalid(status) {
		return cause.Of(err)
	}
	// The text names the quota or the policy. A quota appends the amounts in use, which change.
	text, _, _ := strings.Cut(status.ErrStatus.Message, ", requested: ")
	return text
}
