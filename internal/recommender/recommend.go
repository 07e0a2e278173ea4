package recommender

import (
	"math"
	"time"
)

// What a [Policy] is made of unless a user asks otherwise (logic/recommender.go, the flags'
// defaults).
const (
	DefaultTargetPercentile = 0.9
	DefaultLowerPercentile  = 0.5
	DefaultUpperPercentile  = 0.95
	// DefaultMargin is the part added to each percentile.
	DefaultMargin = 0.15
	// DefaultPodMinMilliCPU and DefaultPodMinMemory are the least that a pod is recommended, in
	// milli-CPU and bytes (pod-recommendation-min-cpu-millicores and -memory-mb, which is in Mi).
	DefaultPodMinMilliCPU = 25
	DefaultPodMinMemory   = 250 * mebi
)

// How far a bound is moved away from the target with a confidence c, which is 1 after a day of
// samples a minute apart (logic/recommender.go, CreatePodResourceRecommender): the lower bound
// by (1 + 0.001/c)^-2, the upper by (1 + 1/c)^1.
const (
	lowerMultiplier = 0.001
	lowerExponent   = -2
	upperMultiplier = 1
	samplesPerDay   = 24 * 60
)

// Cap names what made a target differ from what usage alone would make it.
type Cap string

// All that can cap a target. [Limits] says in which order they apply.
const (
	CapPodMinimum Cap = "PodMinimum"
	CapMinAllowed Cap = "MinAllowed"
	CapMaxAllowed Cap = "MaxAllowed"
	CapLimitRange Cap = "LimitRange"
	CapNodeSize   Cap = "NodeSize"
)

// Range is the least and greatest amount allowed. A Max of 0 allows any amount.
type Range struct {
	Min, Max int64
}

// Limits bounds the figures for one resource of a container, in milli-CPU or bytes. The fields
// apply in the order they stand here, and a later one overrules those before it. A field of 0
// does not apply.
type Limits struct {
	// PodMinimum is the container's share of the least that a pod is recommended, see
	// [ShareCPU] and [ShareMemory].
	PodMinimum int64
	// Allowed is what the user allows.
	Allowed Range
	// LimitRange is what the namespace allows.
	LimitRange Range
	// NodeSize is what the largest node has to give. A pod that asks for more is never run.
	NodeSize int64
}

// Policy says how a recommendation is made from a history.
type Policy struct {
	// Percentiles of usage, as shares from 0 to 1, that the figures are based on, with
	// LowerPercentile <= TargetPercentile <= UpperPercentile.
	TargetPercentile, LowerPercentile, UpperPercentile float64
	// Margin is the part added to each percentile: 0.15 makes it 1.15 times as much.
	Margin float64
	// CPU bounds the milli-CPU.
	CPU Limits
	// Memory bounds the bytes of memory.
	Memory Limits
}

// DefaultPolicy returns the policy for a container in a pod of so many containers.
func DefaultPolicy(containers int) Policy {
	return Policy{
		TargetPercentile: DefaultTargetPercentile,
		LowerPercentile:  DefaultLowerPercentile,
		UpperPercentile:  DefaultUpperPercentile,
		Margin:           DefaultMargin,
		CPU:              Limits{PodMinimum: ShareCPU(DefaultPodMinMilliCPU, containers)},
		Memory:           Limits{PodMinimum: ShareMemory(DefaultPodMinMemory, containers)},
	}
}

// ShareCPU returns each container's equal share of a pod's milli-CPU, rounded up to whole milli.
func ShareCPU(podMilliCPU int64, containers int) int64 {
	return cpuScale.roundUp(float64(podMilliCPU) / float64(max(containers, 1)))
}

// ShareMemory returns each container's equal share of a pod's bytes, rounded up to whole Mi.
func ShareMemory(podBytes int64, containers int) int64 {
	return memoryScale.roundUp(float64(podBytes) / float64(max(containers, 1)))
}

// Estimate is what a container should request of one resource, in whole milli-CPU or in bytes,
// a whole number of Mi unless a limit is not. LowerBound <= Target <= UpperBound. All is zero
// if there is no sample of the resource; otherwise Target is not.
type Estimate struct {
	Target int64
	// A request below LowerBound is too little, one above UpperBound too much.
	LowerBound, UpperBound int64
	// UncappedTarget is the target before any of the Limits applied.
	UncappedTarget int64
	// CappedBy is the last of the Limits that moved the target away from UncappedTarget, or
	// empty if the two are equal.
	CappedBy Cap
}

// Recommendation is what a container should request, and how much is known of it.
type Recommendation struct {
	// CPU is in milli-CPU, Memory in bytes.
	CPU, Memory Estimate
	// Samples is how many CPU samples there were, Span the time from the first to the last.
	Samples int64
	Span    time.Duration
}

// Recommend returns what the container should request by what is known so far. It depends on
// the samples and the policy alone: without new samples it stays the same.
func (h *History) Recommend(policy Policy) Recommendation {
	confidence := h.confidence()
	memory := h.memory.histogram(h.halfLife)
	return Recommendation{
		CPU:     policy.estimate(&h.cpu, cpuScale, policy.CPU, confidence),
		Memory:  policy.estimate(&memory, memoryScale, policy.Memory, confidence),
		Samples: h.samples,
		Span:    time.Duration(h.last-h.first) * time.Second,
	}
}

// confidence is how many days of samples, one a minute, the history is worth, 0 if there is no
// more than one sample: min(span / 24 h, samples / 1440) (logic/estimator.go, getConfidence).
func (h *History) confidence() float64 {
	days := float64(h.last-h.first) / (24 * 60 * 60)
	return min(days, float64(h.samples)/samplesPerDay)
}

// estimate makes the figures for one resource.
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

// apply returns the amount within the limits, and which of them it owes that to.
func (l Limits) apply(amount int64) (int64, Cap) {
	inOrder := [...]struct {
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
	for _, limit := range inOrder {
		if within := limit.clamp(capped); within != capped {
			capped, by = within, limit.by
		}
	}
	if capped == amount {
		return amount, ""
	}
	return capped, by
}

// clamp returns the amount of the range that is closest; Max overrules Min.
func (r Range) clamp(amount int64) int64 {
	amount = max(amount, r.Min)
	if r.Max > 0 {
		amount = min(amount, r.Max)
	}
	return amount
}
