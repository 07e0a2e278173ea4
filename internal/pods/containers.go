package pods

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Sizable returns the containers of a pod that get a size: its sidecars and its containers.
// Ordinary init containers do not run as long as the pod and get no size.
func Sizable(spec *corev1.PodSpec) []corev1.Container {
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(spec.InitContainers), func(c corev1.Container) bool { return !isSidecar(&c) }),
		spec.Containers)
}

// EachSizable yields the same containers, read-only, without a copy.
func EachSizable(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.InitContainers {
			if isSidecar(&spec.InitContainers[i]) && !yield(&spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
	}
}

// SizableStatuses yields the containers of a pod that get a size, each with its status. A
// container without a status is missing.
func SizableStatuses(pod *corev1.Pod) iter.Seq2[*corev1.Container, *corev1.ContainerStatus] {
	return func(yield func(*corev1.Container, *corev1.ContainerStatus) bool) {
		for i := range pod.Status.InitContainerStatuses {
			status := &pod.Status.InitContainerStatuses[i]
			if c := containerNamed(pod.Spec.InitContainers, status.Name); c != nil && isSidecar(c) && !yield(c, status) {
				return
			}
		}
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			if c := containerNamed(pod.Spec.Containers, status.Name); c != nil && !yield(c, status) {
				return
			}
		}
	}
}

// containerNamed returns the container of a name, or nil.
func containerNamed(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// IsSizable reports whether a pod has a container of the name that gets a size.
func IsSizable(spec *corev1.PodSpec, name string) bool { return SizableNamed(spec, name) != nil }

// SizableNamed returns the container of the name if it gets a size, or nil.
func SizableNamed(spec *corev1.PodSpec, name string) *corev1.Container {
	if c := containerNamed(spec.Containers, name); c != nil {
		return c
	}
	if c := containerNamed(spec.InitContainers, name); c != nil && isSidecar(c) {
		return c
	}
	return nil
}

// isSidecar reports whether an init container keeps running while the pod's containers run.
func isSidecar(initContainer *corev1.Container) bool {
	return initContainer.RestartPolicy != nil && *initContainer.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
