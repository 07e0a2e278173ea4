package v1alpha1

import "example.com/upright/apis/decode"

// UnmarshalJSON decodes the spec of a Busybox, as far as it can be decoded.
func (s *BusyboxSpec) UnmarshalJSON(data []byte) error {
	type fields BusyboxSpec
	s.DecodeError = decode.Fields(data, (*fields)(s))
	return nil
}

// UnmarshalJSON decodes the spec of a Foo, as far as it can be decoded.
func (s *FooSpec) UnmarshalJSON(data []byte) error {
	type fields FooSpec
	s.DecodeError = decode.Fields(data, (*fields)(s))
	return nil
}

// UnmarshalJSON decodes a status, as far as it can be decoded. The next reconcile sets the other
// fields.
func (s *DeploymentStatus) UnmarshalJSON(data []byte) error {
	type fields DeploymentStatus
	_ = decode.Fields(data, (*fields)(s))
	return nil
}
