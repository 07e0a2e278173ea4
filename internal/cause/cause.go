// Package cause names the cause of an error in conditions and events.
package cause

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of returns a text for an error that is the same each time the same error repeats. Error texts
// contain ports, times and object names: in a condition they would make every retry a write of
// the status.
func Of(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return string(metav1.StatusReasonTimeout)
	}
	return "see the manager's log"
}
