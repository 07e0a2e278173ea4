// Package recommender computes how much CPU and memory a container should request from its past
// usage. It is a pure library: it has no client, no API types, no clock, no goroutines, and no
// locks. The caller serializes the calls on one History.
//
// A History covers one container name of a workload. All pods of the workload share it, because
// they all get the same size. The algorithm is that of the Kubernetes Vertical Pod Autoscaler
// (VPA), so that users can compare the results. The comment on each constant names the VPA file
// that publishes it, below vertical-pod-autoscaler/pkg/recommender in
// github.com/kubernetes/autoscaler:
//
//   - CPU samples go into a histogram with exponential buckets. A sample loses half of its weight
//     in each half-life (24 h).
//   - Memory counts as one peak per window of 24 h, with the same half-life. An OOM kill counts as
//     a peak above the memory that the container had.
//   - Target, lower bound, and upper bound are the 90th, 50th, and 95th percentile plus a margin
//     of 15 %. The shorter the history is, the further apart the bounds are.
//   - Minimums and maximums apply last, see [Limits].
//
// Differences from the VPA:
//
//   - The order of samples does not matter. Therefore all pods share one peak per window. This
//     also means that no data about deleted pods is kept, that short-lived pods do not dilute the
//     peak, and that the OOM kill of a single pod raises the target however many replicas there
//     are. (The newest window has 1 - 2^(-24h/half-life) of the weight. That is half of it at the
//     default half-life, and more than a tenth at half-lives of up to 6 days. A tenth is what moves
//     a 90th percentile.)
//   - Windows slide: they are counted back from the newest sample. The newest window covers the
//     last 24 to 27 hours. In the VPA it starts every 24 h and is empty at first. At a half-life of
//     up to 7 h, in which it has 90 % of the weight, memory would fall to the use of the night.
//   - An OOM kill counts from the memory that the container had, also if a sample is higher. In the
//     VPA it counts from the higher of the two. That sample may be of another pod, or of the same
//     one with more memory, and says nothing about this kill.
//   - The span starts again after a gap of four half-lives and at least a day. In the VPA the first
//     sample after months has the confidence of all those before.
//   - Results are rounded up once, at the end: CPU to whole milli, memory to whole Mi. The VPA
//     rounds down to whole milli and whole bytes after each step, so its targets may be up to 2m
//     lower, and its bounds a multiple of that.
//   - No result exceeds 1000 cores or 1 TB, where the histograms end, or the largest node. The
//     first upper bounds of the VPA exceed the largest node.
//   - All CPU samples have weight 1. In the VPA they have weight 0.1, and memory has 1.0
//     (model/aggregations_config.go, minSampleWeight). A common factor within one histogram
//     cancels out.
package recommender
