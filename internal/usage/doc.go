// Package usage reads the CPU and memory usage of containers. A [Source] returns the newest sample
// of every container. A [HistoryProvider] returns past samples:
//
//   - [MetricsAPI] reads the Kubernetes metrics API (metrics.k8s.io), which metrics-server serves.
//     It is a Source.
//   - [Prometheus] reads what a Prometheus server has scraped from the cAdvisor endpoints of the
//     kubelets. It is a Source and a HistoryProvider.
//
// If a source is read more often than it measures usage, it returns the same samples again. A
// [Filter] passes each sample once, and drops invalid samples.
//
// Nothing here has a goroutine, but sources are safe for concurrent use.
package usage
