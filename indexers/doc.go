// Package indexers holds the field indexes of the manager's cache, one file an index: the
// field's name, the function that extracts its values and the one that registers it.
package indexers
