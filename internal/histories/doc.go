// Package histories holds what has been learned for each VerticalScaler of its target's
// containers: a recommender.History of each, and which OOM kills count already. A [Store] has
// a [Record] for each scaler, which goes into a VerticalScalerCheckpoint and comes back from
// one. There is no client and no clock here; stores and records may be used from several
// goroutines.
package histories
