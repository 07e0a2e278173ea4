package v1alpha1

import "example.com/upright/apis/decode"

// UnmarshalJSON decodes the spec of a Memcached, as far as it can be decoded.
func (s *MemcachedSpec) UnmarshalJSON(data []byte) error {
	type fields MemcachedSpec
	s.DecodeError = decode.Fields(data, (*fields)(s))
	return nil
}

// UnmarshalJSON decodes a status, as far as it can be decoded. The next reconcile sets the other
// fields.
func (s *MemcachedStatus) UnmarshalJSON(data []byte) error {
	type fields MemcachedStatus
	_ = decode.Fields(data, (*fields)(s))
	return nil
}
