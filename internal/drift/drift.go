// Package drift finds out whether a server-side apply would change a live object.
package drift

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Found reports whether live lacks anything that desired, an apply configuration, sets.
// What desired does not set is not looked at, for a server-side apply leaves it alone: so a
// field that is no longer desired is not found. Let desired carry a value that changes with
// the set of its fields (a hash, say) where that can happen.
//
// Both are pointers to structs with JSON tags.
func Found(live, desired any) (bool, error) {
	liveFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("read the live object's fields: %w", err)
	}
	desiredFields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return false, fmt.Errorf("read the desired fields: %w", err)
	}
	return !contains(liveFields, desiredFields), nil
}

// contains reports whether live has every field of desired with the same value. An item of
// a list of objects may stand anywhere in the live list, which may have further items: the
// lists of objects in a Deployment are merged by their items' names. Other lists are atomic.
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
	if !ofObjects(desired) {
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

func ofObjects(items []any) bool {
	for _, item := range items {
		if _, ok := item.(map[string]any); !ok {
			return false
		}
	}
	return true
}
