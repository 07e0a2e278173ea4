package controllers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/usage"
)

// fate is what became of a sample.
type fate uint8

const (
	unattributed fate = iota // No scaler is concerned with its container.
	unusable                 // It cannot be right.
	seen                     // A manager before this one counted it.
	attributed               // It counts for a scaler.
)

// readSamples are the samples of one reading, each with its fate. Of the fates that a sample
// has for several scalers the last in the list above holds.
type readSamples struct {
	samples []usage.Sample // In the order of their pods.
	fates   []fate
}

func newReadSamples(samples []usage.Sample) *readSamples {
	slices.SortFunc(samples, func(a, b usage.Sample) int { return comparePods(a.Pod, b.Pod) })
	return &readSamples{samples: samples, fates: make([]fate, len(samples))}
}

func comparePods(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// each calls add with each sample of those containers of a pod that are sized, and takes note
// of the fate that it returns.
func (r *readSamples) each(pod *corev1.Pod, add func(*usage.Sample) fate) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	first, _ := slices.BinarySearchFunc(r.samples, name, func(sample usage.Sample, name types.NamespacedName) int {
		return comparePods(sample.Pod, name)
	})
	for i := first; i < len(r.samples) && r.samples[i].Pod == name; i++ {
		if hasSizable(pod, r.samples[i].Container) {
			r.fates[i] = max(r.fates[i], add(&r.samples[i]))
		}
	}
}

// count returns how many samples have each fate.
func (r *readSamples) count() map[fate]int {
	counts := map[fate]int{}
	for _, fate := range r.fates {
		counts[fate]++
	}
	return counts
}
