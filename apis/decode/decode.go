// Package decode decodes parts of objects from JSON, also if a field has an invalid value.
//
// An API server stores what the schema of its CRD allows. If a single object of a list cannot be
// decoded, the client drops the whole list, and the manager can read no object of the kind. So the
// kinds of Upright decode what they can, and keep the problem.
package decode

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kubejson "k8s.io/apimachinery/pkg/util/json"
)

// longExponent matches a number in a string with an exponent of three digits or more. The time
// that resource.ParseQuantity takes grows with the exponent. With ten digits it never returns.
var longExponent = regexp.MustCompile(`"[+-]?[0-9.]+[eE][+-]?\d{3,}"`)

// Fields decodes a JSON object into a pointer to a struct, as clients of Kubernetes do. A field that
// cannot be decoded keeps its zero value. The result describes these fields, or is empty.
func Fields(data []byte, into any) (problem string) {
	if longExponent.Match(data) {
		data = longExponent.ReplaceAllFunc(data, escapeFirst)
	}
	if kubejson.Unmarshal(data, into) == nil {
		return ""
	}
	target := reflect.ValueOf(into).Elem()
	target.SetZero()
	var fields map[string]json.RawMessage
	if err := kubejson.Unmarshal(data, &fields); err != nil {
		return err.Error()
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, _ := json.Marshal(map[string]json.RawMessage{name: fields[name]}) // It was valid JSON before.
		// The first attempt is not into the target, because it may fail halfway.
		if err := kubejson.Unmarshal(field, reflect.New(target.Type()).Interface()); err != nil {
			problems = append(problems, name+": "+err.Error())
		} else {
			_ = kubejson.Unmarshal(field, into)
		}
	}
	return strings.Join(problems, "; ")
}

// escapeFirst writes the first character of a JSON string as an escape sequence. The string stays the
// same, but it is no longer an amount: resource.Quantity does not accept escape sequences.
func escapeFirst(text []byte) []byte {
	return fmt.Appendf(nil, `"\u%04x%s`, text[1], text[2:])
}
