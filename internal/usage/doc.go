// Package usage reads how much CPU and memory containers use. A [Source] gives the newest
// sample of every container, a [Historian] those of the past:
//
//   - [MetricsAPI], the Kubernetes metrics API (metrics.k8s.io), which metrics-server serves:
//     a Source.
//   - [Prometheus], which scrapes the kubelets' cAdvisor metrics: a Source and a Historian.
//
// A source that is asked more often than its usage is measured gives the same samples again;
// a [Filter] passes each of them once, and none that cannot be right.
//
// Nothing here has a goroutine or a lock, but sources may be used from several goroutines.
package usage
