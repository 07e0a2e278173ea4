// Package ssa applies status and data with server-side apply, and reports whether an apply
// would change a live object.
package ssa

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// WouldChange reports whether a server-side apply of desired, an apply configuration, would
// change the live object. It compares only the fields that desired sets. Therefore it does not
// detect that desired no longer sets a field, although the apply would remove that field. If
// this can happen, add a value to desired that changes with its set of fields, such as a hash.
//
// Both arguments are pointers to structs with JSON tags.
func WouldChange(live, desired any) (bool, error) {
	liveFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("convert the live object: %w", err)
	}
	desiredFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return false, fmt.Errorf("convert the desired object: %w", err)
	}
	return !contains(liveFields, desiredFields), nil
}

// contains reports whether live has every field of desired with the same value. In a list of
// objects, the order does not matter and live can have more items, because a Deployment's lists
// of objects are merged by the names of their items. All other lists must be equal.
func contains(live, desired any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		return containsFields(live, desired)
	case []any:
		return containsItems(live, desired)
	default:
		return reflect.DeepEqual(live, desired)
	}
}

func containsFields(live any, desired map[string]any) bool {
	liveFields, ok := live.(map[string]any)
	if !ok {
		return live == nil && len(desired) == 0
	}
	for name, value := range desired {
		if !contains(liveFields[name], value) {
			return false
		}
	}
	return true
}

func containsItems(live any, desired []any) bool {
	liveItems, ok := live.([]any)
	if !ok {
		return live == nil && len(desired) == 0
	}
	if !areObjects(desired) {
		return reflect.DeepEqual(liveItems, desired)
	}
	for _, item := range desired {
		if !containsItem(liveItems, item) {
			return false
		}
	}
	return true
}

func containsItem(live []any, desired any) bool {
	for _, item := range live {
		if contains(item, desired) {
			return true
		}
	}
	return false
}

func areObjects(items []any) bool {
	for _, item := range items {
		if _, ok := item.(map[string]any); !ok {
			return false
		}
	}
	return true
}
