package cache

import "sync"

// maxInterned is how many values an interner stores at most. It then starts again with an empty
// map; values that it returned before stay valid.
const maxInterned = 10_000

// interner returns the same value for the same key. The values must not be changed.
type interner[K comparable, V any] struct {
	mutex sync.Mutex
	known map[K]V
}

// get returns the value of a key, and creates it if there is none.
func (i *interner[K, V]) get(key K, newValue func() V) V {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	value, isKnown := i.known[key]
	if isKnown {
		return value
	}
	if i.known == nil || len(i.known) >= maxInterned {
		i.known = map[K]V{}
	}
	value = newValue()
	i.known[key] = value
	return value
}
