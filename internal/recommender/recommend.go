package recommender

import (
	"math"
	"time"
)

// The values of [DefaultPolicy] (logic/recommender.go, defaults of the flags).
const (
	defaultTargetPercentile = 0.9
	defaultLowerPercentile  = 0.5
	defaultUpperPercentile  = 0.95
	// defaultMargin is the part added to each percentile.
	defaultMargin = 0.15
	// defaultPodMinMilliCPU and defaultPodMinMemory are the minimum for a pod, in milli-CPU and
	// bytes (pod-recommendation-min-cpu-millicores and -memory-mb, which is in Mi).
	defaultPodMinMilliCPU = 25
	defaultPodMinMemory   = 250 * mebi
)

// The confidence c is 1 after a day with one sample per minute. It moves the bounds away from the
// target (logic/recommender.go, CreatePodResourceRecommender): it multiplies the lower bound by
// (1 + 0.001/c)^-2, and the upper bound by (1 + 1/c)^1.
const (
	lowerMultiplier = 0.001
	lowerExponent   = -2
	upperMultiplier = 1
	samplesPerDay   = 24 * 60
)

// Cap names the limit that moved a target away from the target that usage alone gives.
type Cap string

// All caps of a target. [Limits] documents the order in which they apply.
const (
	CapPodMinimum Cap = "PodMinimum"
	CapMinAllowed Cap = "MinAllowed"
	CapMaxAllowed Cap = "MaxAllowed"
	CapLimitRange Cap = "LimitRange"
	CapNodeSize   Cap = "NodeSize"
)

// Range is the minimum and maximum amount. A Max of 0 means no maximum.
type Range struct {
	Min, Max int64
}

// Limits restricts the recommendation for one resource of a container, in milli-CPU or bytes. The
// fields apply in the order in which they are declared, and a later one overrides earlier ones. A
// field with value 0 does not apply.
type Limits struct {
	// PodMinimum is the container's share of the minimum for a pod, see [ShareCPU] and
	// [ShareMemory].
	PodMinimum int64
	// Allowed is the range that the user allows.
	Allowed Range
	// LimitRange is the range that the namespace allows.
	LimitRange Range
	// NodeSize is the allocatable amount of the largest node. A pod that requests more never runs.
	NodeSize int64
}

// Policy configures how a recommendation is computed from a history.
type Policy struct {
	// Percentiles of usage for the target and its bounds, as shares from 0 to 1:
	// LowerPercentile <= TargetPercentile <= UpperPercentile.
	TargetPercentile, LowerPercentile, UpperPercentile float64
	// Margin is the part added to each percentile: 0.15 multiplies it by 1.15.
	Margin float64
	// CPU has the limits in milli-CPU.
	CPU Limits
	// Memory has the limits in bytes.
	Memory Limits
}

// DefaultPolicy returns the policy for a container in a pod with the given number of containers.
func DefaultPolicy(containers int) Policy {
	return Policy{
		TargetPercentile: defaultTargetPercentile,
		LowerPercentile:  defaultLowerPercentile,
		UpperPercentile:  defaultUpperPercentile,
		Margin:           defaultMargin,
		CPU:              Limits{PodMinimum: ShareCPU(defaultPodMinMilliCPU, containers)},
		Memory:           Limits{PodMinimum: ShareMemory(defaultPodMinMemory, containers)},
	}
}

// ShareCPU divides a pod's milli-CPU evenly among its containers. It rounds up to whole milli.
func ShareCPU(podMilliCPU int64, containers int) int64 {
	return cpuScale.roundUp(float64(podMilliCPU) / float64(max(containers, 1)))
}

// ShareMemory divides a pod's bytes evenly among its containers. It rounds up to whole Mi.
func ShareMemory(podBytes int64, containers int) int64 {
	return memoryScale.roundUp(float64(podBytes) / float64(max(containers, 1)))
}

// Estimate is the recommended request of a container for one resource, in milli-CPU or bytes.
// Bytes are whole Mi, unless they equal a limit that is not. LowerBound <= Target <= UpperBound.
// All fields are zero if there is no sample of the resource. Otherwise Target is above zero.
type Estimate struct {
	Target int64
	// A request below LowerBound is too low. A request above UpperBound is too high.
	LowerBound, UpperBound int64
	// UncappedTarget is the target before the Limits apply.
	UncappedTarget int64
	// CappedBy names the last of the Limits that moved the target away from UncappedTarget. It
	// is empty if the two are equal.
	CappedBy Cap
}

// Recommendation has the recommended requests of a container, and the extent of its history.
type Recommendation struct {
	// CPU is in milli-CPU, Memory in bytes.
	CPU, Memory Estimate
	// Samples is the number of CPU samples. Span is the time from the first to the last, without
	// those before a gap of four half-lives and at least a day.
	Samples int64
	Span    time.Duration
}

// Recommend returns the recommendation that follows from the samples so far. It depends only on
// the samples and the policy, so it stays the same until there are new samples.
func (h *History) Recommend(policy Policy) Recommendation {
	confidence := h.confidence()
	memory := h.memory.histogram(h.halfLife)
	return Recommendation{
		CPU:     policy.estimate(&h.cpu, cpuScale, policy.CPU, confidence),
		Memory:  policy.estimate(&memory, memoryScale, policy.Memory, confidence),
		Samples: h.samples,
		Span:    time.Duration(h.span()) * time.Second,
	}
}

// span returns the seconds from the first sample to the last. A long gap separates the samples
// before it from those after it: they are still in the histograms, but add no confidence. If there
// is such a gap, the span is up to one slot too short, because only slots are stored.
func (h *History) span() int64 {
	gap := max(minGap, gapHalfLives*h.halfLife) / slotLength
	age, isBehindGap := h.covered.oldest(gap)
	slot := slotOf(h.last) - age
	if !isBehindGap || slot == slotOf(h.first) {
		return h.last - h.first
	}
	return max(0, h.last-int64(slot+1)*slotLength)
}

// confidence returns the extent of the history in days with one sample per minute:
// min(span / 24 h, samples / 1440) (logic/estimator.go, getConfidence). It is 0 if there is at most
// one sample.
func (h *History) confidence() float64 {
	days := float64(h.span()) / (24 * 60 * 60)
	return min(days, float64(h.samples)/samplesPerDay)
}

// estimate returns the estimate for one resource.
func (p Policy) estimate(h *histogram, s scale, limits Limits, confidence float64) Estimate {
	if h.percentile(1) == 0 {
		return Estimate{}
	}
	usage := func(percentile float64) float64 {
		return h.percentile(percentile-s.slack) * s.first * (1 + p.Margin)
	}
	lower := usage(p.LowerPercentile) * math.Pow(1+lowerMultiplier/confidence, lowerExponent)
	upper := usage(p.UpperPercentile) * (1 + upperMultiplier/confidence)

	e := Estimate{UncappedTarget: s.roundUp(usage(p.TargetPercentile))}
	e.Target, e.CappedBy = limits.apply(e.UncappedTarget)
	e.LowerBound, _ = limits.apply(s.roundUp(lower))
	e.UpperBound, _ = limits.apply(s.roundUp(upper))
	return e
}

// apply returns the amount within the limits, and the last limit that changed it, if any.
func (l Limits) apply(amount int64) (int64, Cap) {
	limits := [...]struct {
		Range
		by Cap
	}{
		{Range{Min: l.PodMinimum}, CapPodMinimum},
		{Range{Min: l.Allowed.Min}, CapMinAllowed},
		{Range{Max: l.Allowed.Max}, CapMaxAllowed},
		{l.LimitRange, CapLimitRange},
		{Range{Max: l.NodeSize}, CapNodeSize},
	}
	capped, by := amount, Cap("")
	for _, limit := range limits {
		if within := limit.clamp(capped); within != capped {
			capped, by = within, limit.by
		}
	}
	if capped == amount {
		return amount, ""
	}
	return capped, by
}

// clamp returns the closest amount within the range. Max overrides Min.
func (r Range) clamp(amount int64) int64 {
	amount = max(amount, r.Min)
	if r.Max > 0 {
		amount = min(amount, r.Max)
	}
	return amount
}
