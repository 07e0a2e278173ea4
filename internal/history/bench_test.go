package history

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkObservePods observes 5,000 pods with 3 containers in which nothing has changed.
func BenchmarkObservePods(b *testing.B) {
	targetPods := make([]corev1.Pod, 5000)
	for i := range targetPods {
		pod := newPod(types.UID("0b7f3c9e-7c64-4a53-9d4c-" + strconv.Itoa(i))).pod
		pod.ResourceVersion = strconv.Itoa(i + 1)
		for _, name := range []string{"log", "proxy"} {
			container, status := pod.Spec.Containers[0], pod.Status.ContainerStatuses[0]
			container.Name, status.Name = name, name
			pod.Spec.Containers = append(pod.Spec.Containers, container)
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		}
		targetPods[i] = pod
	}
	h := newTestHistory()
	b.ReportAllocs()
	for b.Loop() {
		h.ObservePods(targetPods, nil, monday)
	}
}
