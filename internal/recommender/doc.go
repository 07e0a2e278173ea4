// Package recommender says how much CPU and memory a container should request, from the
// usage seen so far. Samples and times go in, a recommendation comes out: there is no client,
// no API type, no clock, no goroutine and no lock. The caller serialises the calls on one
// History.
//
// A History stands for one container of a workload, by name, whichever pods run it: all of
// them share one size. The algorithm is that of the Kubernetes Vertical Pod Autoscaler (VPA),
// so that figures can be compared; each constant's docstring names the file that publishes it,
// below vertical-pod-autoscaler/pkg/recommender in github.com/kubernetes/autoscaler:
//
//   - CPU usage goes into a histogram with exponential buckets, in which a sample's weight
//     halves with each half-life (24 h).
//   - Of memory usage, only the peak of each window of 24 h counts, with the same half-life.
//     An OOM kill counts as a peak above what was used.
//   - Target, lower and upper bound are the 90th, 50th and 95th percentile with a margin of
//     15 %. The bounds are the wider apart the shorter the history is.
//   - Then minimums and maximums apply, see [Limits].
//
// Where it departs from the VPA:
//
//   - Samples may come in any order, and the recommendation is the same. That is why the
//     windows lie at fixed times (whole days since the epoch, in UTC) and not where the first
//     sample happened to be, and why there is one peak in a window rather than one in each pod
//     and window: it needs no memory of pods long gone, pods that lived for a minute do not
//     dilute it, and a single pod's OOM kill raises the target however many replicas there
//     are. (The newest window has 1 - 2^(-24h/half-life) of the weight: half of it at the
//     default half-life, and more than the tenth that moves a 90th percentile up to 6 days.)
//   - Figures are rounded up once, at the end: CPU to whole milli, memory to whole Mi. The VPA
//     rounds down to whole milli and whole bytes after every step, so its figures may be up to
//     2m lower in a target, and in a bound the multiple of that.
//   - No figure is beyond 1000 cores or 1 TB, where the histograms end, nor beyond the largest
//     node, which the VPA's first upper bounds are.
//   - All CPU samples weigh the same. So they do in the VPA, at 0.1 beside memory's 1.0
//     (model/aggregations_config.go, minSampleWeight); within one histogram a common factor
//     cancels out, and here it is 1.
package recommender
