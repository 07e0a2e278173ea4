package decode_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"example.com/upright/apis/decode"
)

type inner struct {
	Amount *resource.Quantity `json:"amount,omitempty"`
	Name   string             `json:"name,omitempty"`
}

type outer struct {
	Name   string                       `json:"name,omitempty"`
	Count  *int32                       `json:"count,omitempty"`
	Inner  inner                        `json:"inner,omitzero"`
	Inners []inner                      `json:"inners,omitempty"`
	ByName map[string]resource.Quantity `json:"byName,omitempty"`
}

func TestFieldsDecodesAValidObject(t *testing.T) {
	t.Parallel()
	got := outer{}
	assert.Empty(t, decode.Fields([]byte(`{"name":"a","count":3,"inner":{"amount":"1e6"},"byName":{"a":1},"unknown":1,"NAME":"b"}`), &got))
	amount := resource.MustParse("1e6")
	assert.Equal(t, outer{Name: "a", Count: new(int32(3)), Inner: inner{Amount: &amount}, ByName: map[string]resource.Quantity{"a": resource.MustParse("1")}}, got)
}

func TestFieldsSkipsOnlyTheInvalidFields(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]struct {
		object  outer
		problem string
	}{
		`{"name":"a","inner":{"name":"b","amount":"1e1.5"}}`:                        {outer{Name: "a"}, "inner: quantities must match"},
		`{"count":3,"inners":[{"amount":"1"},{"amount":"1e99999999999999999999"}]}`: {outer{Count: new(int32(3))}, "inners: quantities must match"},
		`{"name":"a","count":"3"}`:                                                  {outer{Name: "a"}, "count: "},
		`{"name":5,"count":3}`:                                                      {outer{Count: new(int32(3))}, "name: "},
		`{"name":"a","inner":{"amount":"1e1.5"},"inners":[{"amount":"1e1.5"}]}`:     {outer{Name: "a"}, "; inners: "},
		`{"name":"a","byName":{"a":"1","b":"1e1.5"},"inner":"no object"}`:           {outer{Name: "a"}, "byName: quantities must match"},
		`"a string"`: {outer{}, "cannot unmarshal"},
		`[1]`:        {outer{}, "cannot unmarshal"},
	} {
		got := outer{Name: "previous"}
		assert.Contains(t, decode.Fields([]byte(data), &got), want.problem, data)
		assert.Equal(t, want.object, got, data)
	}
}

func TestFieldsRejectsAmountsThatTakeForever(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{"1e2147483648", "1e-2147483648", "1E2147483648", "-1.5e+100000000", "1e1000"} {
		for _, data := range []string{`{"inner":{"amount":"` + amount + `"}}`, `{"byName":{"a": "` + amount + `"}}`} {
			start := time.Now()
			assert.NotEmpty(t, decode.Fields([]byte(data), &outer{}), data)
			assert.Less(t, time.Since(start), time.Second, data)
		}
	}
}

func TestFieldsDoesNotConfuseNamesWithAmounts(t *testing.T) {
	t.Parallel()
	got := outer{}
	data := `{"name":"5e2147483648","inner":{"name":"1e123"},"byName":{"1e2147483648":"1"}}`
	assert.Empty(t, decode.Fields([]byte(data), &got))
	assert.Equal(t, outer{
		Name: "5e2147483648", Inner: inner{Name: "1e123"}, ByName: map[string]resource.Quantity{"1e2147483648": resource.MustParse("1")},
	}, got)
}
