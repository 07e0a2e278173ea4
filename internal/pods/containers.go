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

// IsSizable reports whether a pod has a container of the name that gets a size.
func IsSizable(spec *corev1.PodSpec, name string) bool {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return true
		}
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return isSidecar(&spec.InitContainers[i])
		}
	}
	return false
}

// isSidecar reports whether an init container keeps running while the pod's containers run.
func isSidecar(initContainer *corev1.Container) bool {
	return initContainer.RestartPolicy != nil && *initContainer.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
