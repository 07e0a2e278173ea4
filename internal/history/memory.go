package history

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// podMemory is what is known of the memory of a pod's containers.
type podMemory struct {
	observed   int64  // The number of the last observation of the target's pods that had this pod.
	version    string // The pod's resource version then; empty to observe it again.
	containers []containerMemory
}

// containerMemory is what is known of the memory of a container of a pod.
type containerMemory struct {
	name string
	run  run
	kill kill
}

// run is the time from a start of a container to its end, as it was observed last.
type run struct {
	isKnown bool
	started int64 // In seconds since 1970.
	// reported is the memory in the pod's status, and inForce the memory that the container
	// really had. The kubelet also reports a resize that happened while the container did not
	// run. It has no effect on the next run, because the pod's cgroup keeps its limit
	// (https://github.com/kubernetes/kubernetes/issues/138760).
	reported, inForce int64
}

// podMemory returns what is known of a pod.
func (h *WorkloadHistory) podMemory(pod types.UID) *podMemory {
	known := h.pods[pod]
	if known == nil {
		known = &podMemory{observed: h.observations}
		h.pods[pod] = known
	}
	return known
}

// container returns what is known of a container, until the next call.
func (p *podMemory) container(name string) *containerMemory {
	for i := range p.containers {
		if p.containers[i].name == name {
			return &p.containers[i]
		}
	}
	p.containers = append(p.containers, containerMemory{name: name})
	return &p.containers[len(p.containers)-1]
}

// wasKilled reports whether an OOM kill of the pod is known.
func (p *podMemory) wasKilled() bool {
	return slices.ContainsFunc(p.containers, func(c containerMemory) bool { return c.kill.isKnown })
}

// inherit takes over what is known of the pods of the same Deployment. The OOM kills are not counted.
func (h *WorkloadHistory) inherit(previous *WorkloadHistory) {
	previous.mutex.Lock()
	defer previous.mutex.Unlock()
	for uid, pod := range previous.pods {
		known := &podMemory{containers: slices.Clone(pod.containers)}
		for i := range known.containers {
			known.containers[i].kill.isCounted = false
		}
		h.pods[uid] = known
	}
}

// isResized reports whether a pod may have been resized. The API server counts the changes of a
// pod's spec, from 1 on. A server that does not count them cannot resize pods.
func isResized(pod *corev1.Pod) bool { return pod.Generation > 1 }

// observe notes the memory of a container that runs, and reports whether it has changed.
func (c *containerMemory) observe(pod *corev1.Pod, container *corev1.Container, status *corev1.ContainerStatus) bool {
	if status.State.Running == nil || status.Resources == nil && isResized(pod) {
		return false
	}
	before := c.run
	c.run.observe(status.State.Running.StartedAt.Unix(), reported(container, status))
	return c.run != before
}

// observe notes the start of the container and the memory in the pod's status.
func (r *run) observe(started, reported int64) {
	switch {
	case !r.isKnown || started == r.started && reported != r.reported:
		r.inForce = reported // A resize of a running container has an effect.
	case started != r.started:
		r.inForce = min(r.inForce, reported)
	}
	r.isKnown, r.started, r.reported = true, started, reported
}

// reported returns a container's memory in the status, or else in the spec.
func reported(container *corev1.Container, status *corev1.ContainerStatus) int64 {
	if status.Resources != nil {
		return pods.Memory(status.Resources)
	}
	return pods.Memory(&container.Resources)
}

// at returns the memory that was in force at the last OOM kill of a container, or less. It returns
// false if that is not known.
func (c *containerMemory) at(
	kill *pods.OOMKill, pod *corev1.Pod, container *corev1.Container, status *corev1.ContainerStatus, template *corev1.PodSpec,
) (int64, bool) {
	switch {
	case !isResized(pod):
		return pods.Memory(&container.Resources), true
	case c.kill.isKnown && c.kill.finished == finishedOf(kill):
		return c.kill.memory, true
	case c.run.isKnown && c.run.hasEnded(kill):
		return min(c.run.inForce, reported(container, status)), true
	}
	// No run was observed that this kill ended, and the pod was resized before it or after it. If the
	// container has more than the template gives it, it may have got that because of this kill.
	// Otherwise it may have had even less than it has now.
	if template == nil {
		return 0, false
	}
	if created := pods.SizableNamed(template, container.Name); created != nil {
		had := pods.Memory(&created.Resources)
		return had, had < reported(container, status)
	}
	return 0, false
}

// hasEnded reports whether an OOM kill ended this run or a later one.
func (r *run) hasEnded(kill *pods.OOMKill) bool {
	if !kill.StartedAt.IsZero() {
		return kill.StartedAt.Unix() >= r.started
	}
	return kill.FinishedAt.Unix() > r.started
}

// stored returns the run as it is saved in a checkpoint, or nil if none is known.
func (r *run) stored() *autoscalingv1beta1.ContainerRun {
	if !r.isKnown {
		return nil
	}
	return &autoscalingv1beta1.ContainerRun{
		StartedAt: metav1.Unix(max(0, r.started), 0), ReportedMemory: r.reported, MemoryInForce: r.inForce,
	}
}

// restoredRun returns a run that was saved in a checkpoint.
func restoredRun(stored *autoscalingv1beta1.ContainerRun) run {
	if stored == nil {
		return run{}
	}
	return run{isKnown: true, started: stored.StartedAt.Unix(), reported: stored.ReportedMemory, inForce: stored.MemoryInForce}
}
