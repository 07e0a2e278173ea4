package usage

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Sample is what one container of a pod used at a time. Sources pass on what they read, also
// what cannot be right: see [Sample.Usable].
type Sample struct {
	Pod       types.NamespacedName
	Container string
	// Time is when the usage was measured, not when it was read.
	Time time.Time
	// CPU is in cores, averaged over Window. It is not a number (NaN) if the source did not say.
	CPU float64
	// Memory is the working set in bytes: what the kernel cannot reclaim, which is what an OOM
	// kill goes by. It is negative if the source did not say, or said what fits no int64.
	Memory int64
	// Window is the time up to Time over which CPU is averaged.
	Window time.Duration
}

// Usable reports whether CPU and Memory are amounts: finite, and not below zero.
func (s *Sample) Usable() bool {
	return s.CPU >= 0 && !math.IsInf(s.CPU, 1) && s.Memory >= 0
}

// Source reads the usage of now.
type Source interface {
	// Read returns the newest sample of every container, in any order. The context's deadline
	// is the only limit to how long that takes. The error is an [Error], unless the context was
	// cancelled; then there are no samples.
	Read(ctx context.Context) ([]Sample, error)
}

// Historian reads the usage of the past.
type Historian interface {
	// History yields the samples of all containers of the namespace's pods whose whole name
	// matches pods, a regular expression in RE2 syntax. A container's samples come in order,
	// each once; containers come in any order, and again for a later part of the range.
	// The first error ends it, and is of the same kind as that of Source.Read.
	History(ctx context.Context, namespace, pods string, span Range) iter.Seq2[Sample, error]
}

// Range is the times From, From+Step, From+2*Step and so on, up to and perhaps including To.
type Range struct {
	From, To time.Time
	Step     time.Duration
}

// ErrUnavailable says that the source of usage is absent or failing: nothing that Upright does
// is at fault, and the next attempt may succeed.
var ErrUnavailable = errors.New("usage is unavailable")

// Error is why usage could not be read.
type Error struct {
	// Advice says what is wrong and what to do about it. It is the same for the same cause, and
	// so fit for a condition. Error adds the cause, which may differ from one attempt to the
	// next (by a port number, say).
	Advice string
	// Unavailable makes the error an ErrUnavailable.
	Unavailable bool
	// Cause is what the client returned.
	Cause error
}

// Error returns the advice and the cause.
func (e *Error) Error() string { return e.Advice + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is ErrUnavailable and the source is unavailable.
func (e *Error) Is(target error) bool { return target == ErrUnavailable && e.Unavailable }
