// Package sizing turns what is known of a container's usage into what a VerticalScaler says
// of it: the recommender's policy from the scaler's spec and from what else limits the size of
// a pod, and from the figures that come of it the entries of the scaler's status. All of it is
// arithmetic on API objects: there is no client here.
package sizing
