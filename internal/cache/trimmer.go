package cache

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reasonCompleted is the kubelet's reason for the termination of a container that succeeded.
const reasonCompleted = "Completed"

// Trimmer drops the fields of objects that no controller reads. Equal resource lists and hash
// labels are stored once: the pods of a ReplicaSet have the same ones, and a map of two entries
// takes 700 bytes. So are the names of nodes. The zero value is ready to use, by several goroutines.
type Trimmer struct {
	lists  interner[listKey, corev1.ResourceList]
	hashes interner[string, map[string]string]
	nodes  interner[string, string]
}

// listKey identifies a resource list by its amounts, in milli-CPU and bytes.
type listKey struct {
	milliCPU, memory  int64
	hasCPU, hasMemory bool
}

// Trim is the cache's transform function. It changes the object in place and returns it.
func (t *Trimmer) Trim(in any) (any, error) {
	switch obj := in.(type) {
	case *metav1.PartialObjectMetadata:
		obj.TypeMeta = NewDeploymentMetadata().TypeMeta // Shares one string among all objects.
		obj.ObjectMeta = metav1.ObjectMeta{
			Name:              obj.Name,
			Namespace:         obj.Namespace,
			UID:               obj.UID,
			ResourceVersion:   obj.ResourceVersion,
			Generation:        obj.Generation,
			DeletionTimestamp: obj.DeletionTimestamp,
			OwnerReferences:   obj.OwnerReferences,
		}
	case *corev1.Pod:
		t.trimPod(obj)
	case *corev1.Node:
		obj.ObjectMeta = metav1.ObjectMeta{Name: obj.Name, ResourceVersion: obj.ResourceVersion, Labels: obj.Labels}
		obj.Spec = corev1.NodeSpec{Unschedulable: obj.Spec.Unschedulable, Taints: obj.Spec.Taints}
		obj.Status = corev1.NodeStatus{Allocatable: t.sizedOnly(obj.Status.Allocatable)}
	case client.Object:
		obj.SetManagedFields(nil)
	}
	return in, nil
}

// trimPod keeps a pod's identity, its containers' resources, and the parts of its status that
// sizing reads.
func (t *Trimmer) trimPod(pod *corev1.Pod) {
	pod.ObjectMeta = metav1.ObjectMeta{
		Name:              pod.Name,
		Namespace:         pod.Namespace,
		UID:               pod.UID,
		ResourceVersion:   pod.ResourceVersion,
		Generation:        pod.Generation,
		CreationTimestamp: pod.CreationTimestamp,
		DeletionTimestamp: pod.DeletionTimestamp,
		OwnerReferences:   pod.OwnerReferences,
		Labels:            t.hashLabel(pod.Labels),
	}
	resources, node, os := pod.Spec.Resources, pod.Spec.NodeName, pod.Spec.OS
	pod.Spec = corev1.PodSpec{
		NodeName:       t.nodes.get(node, func() string { return strings.Clone(node) }),
		Overhead:       t.sizedOnly(pod.Spec.Overhead),
		OS:             os,
		InitContainers: t.Containers(pod.Spec.InitContainers),
		Containers:     t.Containers(pod.Spec.Containers),
	}
	if resources != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{}
	}
	pod.Status = corev1.PodStatus{
		ObservedGeneration:    pod.Status.ObservedGeneration,
		Phase:                 pod.Status.Phase,
		QOSClass:              pod.Status.QOSClass,
		Conditions:            trimConditions(&pod.Status),
		InitContainerStatuses: t.trimStatuses(pod.Status.InitContainerStatuses),
		ContainerStatuses:     t.trimStatuses(pod.Status.ContainerStatuses),
	}
}

// trimConditions keeps the conditions that report a pod that is not ready, a resize, or a pod
// without a node. Most pods have none of them.
func trimConditions(status *corev1.PodStatus) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range status.Conditions {
		if condition := &status.Conditions[i]; isRead(condition, status) {
			kept = append(kept, corev1.PodCondition{
				Type: condition.Type, ObservedGeneration: condition.ObservedGeneration,
				Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
				Reason: condition.Reason, Message: condition.Message,
			})
		}
	}
	return kept
}

// isRead reports whether a controller reads a pod's condition.
func isRead(condition *corev1.PodCondition, status *corev1.PodStatus) bool {
	switch condition.Type {
	case corev1.PodReady:
		return condition.Status != corev1.ConditionTrue
	case corev1.PodScheduled:
		// A pod with a nominated node is about to be scheduled.
		return condition.Status == corev1.ConditionFalse && status.NominatedNodeName == ""
	case corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	default:
		return false
	}
}

// Containers returns what is read of containers: names, policies, and CPU and memory.
func (t *Trimmer) Containers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		trimmed[i] = corev1.Container{
			Name:          containers[i].Name,
			RestartPolicy: containers[i].RestartPolicy,
			ResizePolicy:  containers[i].ResizePolicy,
			Resources: corev1.ResourceRequirements{
				Requests: t.sizedOnly(containers[i].Resources.Requests),
				Limits:   t.sizedOnly(containers[i].Resources.Limits),
			},
		}
	}
	return trimmed
}

// trimStatuses keeps the containers' states, restarts, and the resources they have.
func (t *Trimmer) trimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	trimmed := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		status := &statuses[i]
		trimmed[i] = corev1.ContainerStatus{
			Name:                 status.Name,
			RestartCount:         status.RestartCount,
			State:                trimState(status.State),
			LastTerminationState: corev1.ContainerState{Terminated: trimTerminated(status.LastTerminationState.Terminated)},
		}
		if has := status.Resources; has != nil {
			trimmed[i].Resources = &corev1.ResourceRequirements{Requests: t.sizedOnly(has.Requests), Limits: t.sizedOnly(has.Limits)}
		}
	}
	return trimmed
}

// trimState keeps when a container started, why it waits, or how it ended. The end of an init
// container that has done its work is not read.
func trimState(state corev1.ContainerState) (trimmed corev1.ContainerState) {
	if state.Running != nil {
		trimmed.Running = &corev1.ContainerStateRunning{StartedAt: state.Running.StartedAt}
	}
	if state.Waiting != nil {
		trimmed.Waiting = &corev1.ContainerStateWaiting{Reason: state.Waiting.Reason}
	}
	if end := state.Terminated; end != nil && end.Reason != reasonCompleted {
		trimmed.Terminated = trimTerminated(end)
	}
	return trimmed
}

// trimTerminated keeps why and when a container ended. Most containers have never ended.
func trimTerminated(end *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if end == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{
		Reason: end.Reason, ExitCode: end.ExitCode, StartedAt: end.StartedAt, FinishedAt: end.FinishedAt,
	}
}

// sizedOnly returns the CPU and memory of a resource list, to be read only.
func (t *Trimmer) sizedOnly(amounts corev1.ResourceList) corev1.ResourceList {
	cpu, hasCPU := amounts[corev1.ResourceCPU]
	memory, hasMemory := amounts[corev1.ResourceMemory]
	if !hasCPU && !hasMemory {
		return nil
	}
	return t.lists.get(listKey{cpu.MilliValue(), memory.Value(), hasCPU, hasMemory}, func() corev1.ResourceList {
		list := corev1.ResourceList{}
		if hasCPU {
			list[corev1.ResourceCPU] = cpu
		}
		if hasMemory {
			list[corev1.ResourceMemory] = memory
		}
		return list
	})
}

// hashLabel returns the label that identifies a pod's template, or nil if there is none.
func (t *Trimmer) hashLabel(labels map[string]string) map[string]string {
	hash, isSet := labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if !isSet {
		return nil
	}
	return t.hashes.get(hash, func() map[string]string {
		return map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	})
}
