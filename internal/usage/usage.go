package usage

import (
	"context"
	"iter"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Sample is the usage of one container of a pod at one time. Sources return what they read, even
// if it is invalid: see [Sample.Usable].
type Sample struct {
	Pod       types.NamespacedName
	Container string
	// Time is the time of the measurement, not the time of the read.
	Time time.Time
	// CPU is in cores. It is an average over the time before Time: the window of metrics-server,
	// or [PrometheusConfig.Window]. It is not a number (NaN) if the source has no value.
	CPU float64
	// Memory is the working set in bytes: memory that the kernel cannot reclaim, so it decides
	// about OOM kills. It is negative if the source has no value, or a value that does not fit an
	// int64.
	Memory int64
}

// Usable reports whether CPU and Memory are valid: finite and not negative.
func (s *Sample) Usable() bool {
	return s.CPU >= 0 && !math.IsInf(s.CPU, 1) && s.Memory >= 0
}

// Source reads current usage.
type Source interface {
	// Read returns the newest sample of every container, in any order. Only the deadline of the
	// context limits its duration. With an error, there are no samples. The error is an [Error],
	// unless the context was canceled.
	Read(ctx context.Context) ([]Sample, error)
}

// HistoryProvider reads past usage.
type HistoryProvider interface {
	// History yields the samples of all containers in the namespace's pods whose whole name
	// matches pods, a regular expression in RE2 syntax. The samples of a container are in order,
	// without duplicates. Containers are in any order. The whole range is in memory meanwhile, so
	// a caller divides a long range. History ends with the first error, which is of the same kind
	// as in Source.Read; it is too large if the range has too many samples.
	History(ctx context.Context, namespace, pods string, span Range) iter.Seq2[Sample, error]
}

// Range is the sequence of times From, From+Step, From+2*Step and so on that are not after To.
type Range struct {
	From, To time.Time
	Step     time.Duration
}

// Error explains why usage could not be read.
type Error struct {
	// Advice describes the problem and what to do about it. It is the same for the same cause, so
	// it fits in a condition. The Error method adds the cause, which may differ between attempts
	// (in a port number, for example).
	Advice string
	// Cause is the error of the client.
	Cause error
	// IsPermanent is true if the same request fails until somebody changes something.
	IsPermanent bool
	// IsTooLarge is true if a request for less can succeed.
	IsTooLarge bool
}

// Error returns the advice and the cause.
func (e *Error) Error() string { return e.Advice + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
