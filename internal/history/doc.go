// Package history holds the usage history of the targets of VerticalScalers. A [Store] has one
// [WorkloadHistory] for each scaler. It consists of a recommender.History for each container, the
// OOM kills that are already counted, and past targets. A VerticalScalerCheckpoint saves it.
//
// The package uses no client and no clock. All types are safe for concurrent use.
package history
