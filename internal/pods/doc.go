// Package pods inspects pods: which of them run, are ready or cannot be scheduled, which
// containers get a size, and which were OOM-killed. It works with the trimmed pods of the
// manager's cache (internal/cache) and with whole pods.
package pods
