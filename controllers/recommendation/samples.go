package recommendation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/pods"
	"example.com/upright/internal/usage"
)

// outcome is what happened to a sample.
type outcome uint8

// Outcomes of a sample, the weakest first.
const (
	unattributed outcome = iota // No scaler sizes the container.
	unusable                    // The sample is invalid.
	seen                        // A previous manager has counted the sample.
	attributed                  // The sample counts for a scaler.
)

// reading holds the samples of one reading of usage, each with its outcome. If several scalers
// learn from a sample, its outcome is the strongest.
type reading struct {
	samples  []usage.Sample // Sorted by pod.
	outcomes []outcome
	cause    cause
}

func newReading(samples []usage.Sample, cause cause) *reading {
	slices.SortFunc(samples, func(a, b usage.Sample) int { return comparePods(a.Pod, b.Pod) })
	return &reading{samples: samples, outcomes: make([]outcome, len(samples)), cause: cause}
}

func comparePods(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// forPod calls learn with each sample of a pod's sized containers and keeps the outcome that it
// returns.
func (r *reading) forPod(pod *corev1.Pod, learn func(*usage.Sample) outcome) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	first, _ := slices.BinarySearchFunc(r.samples, name, func(sample usage.Sample, name types.NamespacedName) int {
		return comparePods(sample.Pod, name)
	})
	for i := first; i < len(r.samples) && r.samples[i].Pod == name; i++ {
		if pods.IsSizable(&pod.Spec, r.samples[i].Container) {
			r.outcomes[i] = max(r.outcomes[i], learn(&r.samples[i]))
		}
	}
}

// count returns the number of samples by outcome.
func (r *reading) count() map[outcome]int {
	counts := map[outcome]int{}
	for _, outcome := range r.outcomes {
		counts[outcome]++
	}
	return counts
}
