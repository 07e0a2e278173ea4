package recommendation

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/history"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/usage"
)

const (
	// backfillStep is the time between two past samples.
	backfillStep = time.Minute
	// firstSteps is the size of the first part in steps, before the number of containers is known.
	firstSteps = 10
	// maxSteps is the maximum size of a part in steps: a day.
	maxSteps = 1440
	// maxSamples is the number of samples that a part should have at most. In the response of
	// Prometheus they take about 1.5 MB.
	maxSamples = 50_000
)

// partSize is how much of the past is read at a time, in steps. All samples of a part are in memory
// together, so the size depends on the number of containers.
type partSize int

func newPartSize() *partSize { return new(partSize(firstSteps)) }

// cut returns the newest part of what is left, and what is left after it.
func (s *partSize) cut(left history.Past) (part usage.Range, after history.Past) {
	steps := min(int(left.To.Sub(left.From)/backfillStep), int(*s)-1) // Between the first and the last sample.
	from := left.To.Add(-time.Duration(steps) * backfillStep)
	return usage.Range{From: from, To: left.To, Step: backfillStep}, history.Past{From: left.From, To: from.Add(-backfillStep)}
}

// fit adapts the size to the number of containers that the last part had.
func (s *partSize) fit(containers int) {
	*s = partSize(max(1, min(maxSteps, maxSamples/max(containers, 1))))
}

// shrink halves the size. It returns false if the size is the minimum.
func (s *partSize) shrink() bool {
	*s /= 2
	if *s == 0 {
		*s = 1
		return false
	}
	return true
}

// pastUsage is usage from the past.
type pastUsage struct {
	halfLife  time.Duration
	histories map[string]*recommender.History // By container.
}

func newPastUsage(halfLife time.Duration) *pastUsage {
	return &pastUsage{halfLife: halfLife, histories: map[string]*recommender.History{}}
}

// series identifies a container of a pod.
type series struct {
	pod       types.NamespacedName
	container string
}

// add adds the samples of a part, and returns the number of containers of pods in it. With an error,
// it adds nothing.
func (p *pastUsage) add(samples iter.Seq2[usage.Sample, error]) (containers int, err error) {
	part, found := map[string]*recommender.History{}, map[series]bool{}
	for sample, err := range samples {
		if err != nil {
			return 0, err
		}
		found[series{sample.Pod, sample.Container}] = true
		if sample.Usable() {
			p.addSample(part, &sample)
		}
	}
	for name, container := range part {
		if p.histories[name] == nil {
			p.histories[name] = recommender.New(p.halfLife)
		}
		p.histories[name].Merge(container)
	}
	return len(found), nil
}

func (p *pastUsage) addSample(part map[string]*recommender.History, sample *usage.Sample) {
	container := part[sample.Container]
	if container == nil {
		container = recommender.New(p.halfLife)
		part[sample.Container] = container
	}
	if container.AddCPU(sample.Time, sample.CPU) == nil {
		_ = container.AddMemory(sample.Time, sample.Memory) // Its time is valid, as that of CPU is.
	}
}
