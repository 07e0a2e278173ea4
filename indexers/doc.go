// Package indexers holds the field indexes of the manager's cache. Each file has one index: the
// name of its field and the function that extracts its values. AddAll registers all indexes.
package indexers
