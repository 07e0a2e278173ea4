package verticalscaler

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// resourceSet is a set of the resources that a resize changes. A resize that lowers a memory limit
// is another one than one that does not: both can be tried in one reconcile.
type resourceSet struct{ cpu, memory, lowersMemory bool }

// anyResources stands for every resize.
var anyResources = resourceSet{}

// resizePatch is the strategic merge patch of a pod's resize, without what stays as it is. So it
// is the same patch after another resource has changed.
type resizePatch struct {
	body      string
	resources resourceSet
}

// patchedContainer is a container in a resizePatch.
type patchedContainer struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// newResizePatch returns the patch that sets the resources of containers.
func newResizePatch(pod *corev1.Pod, containers []corev1.Container) (resizePatch, error) {
	var patch resizePatch
	var object struct {
		Spec struct {
			InitContainers []patchedContainer `json:"initContainers,omitempty"`
			Containers     []patchedContainer `json:"containers,omitempty"`
		} `json:"spec"`
	}
	for i := range containers {
		changed := &containers[i]
		isNamed := func(c corev1.Container) bool { return c.Name == changed.Name }
		if n := slices.IndexFunc(pod.Spec.InitContainers, isNamed); n >= 0 {
			object.Spec.InitContainers = append(object.Spec.InitContainers, patch.of(&pod.Spec.InitContainers[n], changed))
		} else if n := slices.IndexFunc(pod.Spec.Containers, isNamed); n >= 0 {
			object.Spec.Containers = append(object.Spec.Containers, patch.of(&pod.Spec.Containers[n], changed))
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return resizePatch{}, fmt.Errorf("encode the resize of pod %s: %w", pod.Name, err)
	}
	patch.body = string(body)
	return patch, nil
}

// of returns what differs between a container and the changed one, and notes the resources.
func (p *resizePatch) of(current, changed *corev1.Container) patchedContainer {
	container := patchedContainer{Name: changed.Name}
	difference := func(from, to corev1.ResourceList) corev1.ResourceList {
		different := corev1.ResourceList{}
		for name, amount := range to {
			if previous, isSet := from[name]; !isSet || previous.Cmp(amount) != 0 {
				different[name] = amount
				p.resources.cpu = p.resources.cpu || name == corev1.ResourceCPU
				p.resources.memory = p.resources.memory || name == corev1.ResourceMemory
			}
		}
		return different
	}
	container.Resources.Requests = difference(current.Resources.Requests, changed.Resources.Requests)
	container.Resources.Limits = difference(current.Resources.Limits, changed.Resources.Limits)
	if limit, isChanged := container.Resources.Limits[corev1.ResourceMemory]; isChanged {
		p.resources.lowersMemory = p.resources.lowersMemory || limit.Cmp(*current.Resources.Limits.Memory()) < 0
	}
	return container
}
