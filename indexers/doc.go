// Package indexers holds the field indexes of the manager's cache. Each file has one index, or two
// with the same values: the name of its field and the function that extracts its values. AddAll
// registers all indexes.
package indexers
