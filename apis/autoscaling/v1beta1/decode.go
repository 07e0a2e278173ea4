package v1beta1

import "example.com/upright/apis/decode"

// UnmarshalJSON decodes the spec of a VerticalScaler, as far as it can be decoded.
func (s *VerticalScalerSpec) UnmarshalJSON(data []byte) error {
	type fields VerticalScalerSpec
	s.DecodeError = decode.Fields(data, (*fields)(s))
	return nil
}

// UnmarshalJSON decodes a status, as far as it can be decoded. The next reconcile sets the other
// fields.
func (s *VerticalScalerStatus) UnmarshalJSON(data []byte) error {
	type fields VerticalScalerStatus
	_ = decode.Fields(data, (*fields)(s))
	return nil
}

// UnmarshalJSON decodes a SizeTable, without its sizes if they cannot be decoded.
func (t *SizeTable) UnmarshalJSON(data []byte) error {
	type fields SizeTable
	t.DecodeError = decode.Fields(data, (*fields)(t))
	return nil
}
