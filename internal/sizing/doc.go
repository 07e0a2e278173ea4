// Package sizing connects a VerticalScaler to the recommender and to pods. It builds the
// recommender's policy from the scaler's spec, the namespace's LimitRanges and the nodes. It
// converts recommendations into the entries of the scaler's status, computes the sizes of new
// and running pods, and decides when a size is applied. All functions are pure: the package
// uses API objects but no client.
package sizing
