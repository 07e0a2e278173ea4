package ownedstatus

import "errors"

// SpecInvalidError reports that the owner's spec cannot be decoded.
type SpecInvalidError struct {
	Problem string // The invalid fields of the spec.
}

// Error returns what to correct.
func (e *SpecInvalidError) Error() string {
	return "The spec is invalid, so the Deployment is left unchanged. Correct the spec: " + e.Problem
}

// isSpecInvalid reports whether err is a SpecInvalidError.
func isSpecInvalid(err error) bool {
	_, is := errors.AsType[*SpecInvalidError](err)
	return is
}
