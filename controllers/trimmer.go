package controllers

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trimmer drops from objects, on their way into the cache, what no controller reads. The pods
// of a ReplicaSet have the same hash and request the same, and a map of two entries takes 700
// bytes: those that are equal are held once.
type trimmer struct {
	lists  sharer[listKey, corev1.ResourceList]
	hashes sharer[string, map[string]string]
}

// listKey is what tells lists of amounts apart, in milli-CPU and bytes.
type listKey struct {
	milliCPU, memory  int64
	hasCPU, hasMemory bool
}

// trim drops from an object what no controller reads.
func (t *trimmer) trim(in any) (any, error) {
	switch obj := in.(type) {
	case *metav1.PartialObjectMetadata:
		obj.TypeMeta = newDeploymentMetadata().TypeMeta // One string for all instead of one for each.
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
		obj.ObjectMeta = metav1.ObjectMeta{Name: obj.Name, ResourceVersion: obj.ResourceVersion}
		obj.Spec = corev1.NodeSpec{}
		obj.Status = corev1.NodeStatus{Allocatable: t.sized(obj.Status.Allocatable)}
	case client.Object:
		obj.SetManagedFields(nil)
	}
	return in, nil
}

// trimPod leaves of a pod whose it is, what its containers request, and whether they ran out
// of memory.
func (t *trimmer) trimPod(pod *corev1.Pod) {
	pod.ObjectMeta = metav1.ObjectMeta{
		Name:              pod.Name,
		Namespace:         pod.Namespace,
		UID:               pod.UID,
		ResourceVersion:   pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp,
		DeletionTimestamp: pod.DeletionTimestamp,
		OwnerReferences:   pod.OwnerReferences,
		Labels:            t.hashLabel(pod.Labels),
	}
	resources := pod.Spec.Resources
	pod.Spec = corev1.PodSpec{
		InitContainers: t.trimContainers(pod.Spec.InitContainers),
		Containers:     t.trimContainers(pod.Spec.Containers),
	}
	if resources != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{}
	}
	pod.Status = corev1.PodStatus{
		Phase:                 pod.Status.Phase,
		QOSClass:              pod.Status.QOSClass,
		Conditions:            trimConditions(&pod.Status),
		InitContainerStatuses: t.trimStatuses(pod.Status.InitContainerStatuses),
		ContainerStatuses:     t.trimStatuses(pod.Status.ContainerStatuses),
	}
}

// trimConditions leaves what says that a pod is not ready, how a resize goes, and why there is
// no node for it. Most pods have none of it.
func trimConditions(status *corev1.PodStatus) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range status.Conditions {
		if condition := &status.Conditions[i]; matters(condition, status) {
			kept = append(kept, corev1.PodCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
				Reason: condition.Reason, Message: condition.Message,
			})
		}
	}
	return kept
}

// matters reports whether a pod's condition is kept.
func matters(condition *corev1.PodCondition, status *corev1.PodStatus) bool {
	switch condition.Type {
	case corev1.PodReady:
		return condition.Status != corev1.ConditionTrue
	case corev1.PodScheduled:
		// Where the scheduler has nominated a node, there is about to be one.
		return condition.Status == corev1.ConditionFalse && status.NominatedNodeName == ""
	case corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	default:
		return false
	}
}

func (t *trimmer) trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		trimmed[i] = corev1.Container{
			Name:          containers[i].Name,
			RestartPolicy: containers[i].RestartPolicy,
			ResizePolicy:  containers[i].ResizePolicy,
			Resources: corev1.ResourceRequirements{
				Requests: t.sized(containers[i].Resources.Requests),
				Limits:   t.sized(containers[i].Resources.Limits),
			},
		}
	}
	return trimmed
}

// trimStatuses leaves of containers' statuses whether they run, what they have been given, and
// whether they ran out of memory.
func (t *trimmer) trimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	trimmed := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		trimmed[i].Name = statuses[i].Name
		if statuses[i].State.Running != nil {
			trimmed[i].State.Running = &corev1.ContainerStateRunning{}
		}
		if has := statuses[i].Resources; has != nil {
			trimmed[i].Resources = &corev1.ResourceRequirements{Requests: t.sized(has.Requests), Limits: t.sized(has.Limits)}
		}
		if end := oomKill(statuses[i]); end != nil {
			trimmed[i].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: end.Reason, FinishedAt: end.FinishedAt,
			}
		}
	}
	return trimmed
}

// sized returns the amounts of the resources that are sized.
func (t *trimmer) sized(amounts corev1.ResourceList) corev1.ResourceList {
	cpu, hasCPU := amounts[corev1.ResourceCPU]
	memory, hasMemory := amounts[corev1.ResourceMemory]
	if !hasCPU && !hasMemory {
		return nil
	}
	return t.lists.of(listKey{cpu.MilliValue(), memory.Value(), hasCPU, hasMemory}, func() corev1.ResourceList {
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

// hashLabel returns the one of a pod's labels that says of which template it is, nil where it
// is not there.
func (t *trimmer) hashLabel(labels map[string]string) map[string]string {
	hash, isSet := labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if !isSet {
		return nil
	}
	return t.hashes.of(hash, func() map[string]string {
		return map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	})
}

// shareable is how many values a sharer knows at most. It then begins anew, and what it gave
// out stays as long as somebody has it.
const shareable = 10_000

// sharer gives out one value for each key, to be read only.
type sharer[K comparable, V any] struct {
	mutex sync.Mutex
	known map[K]V
}

// of returns the value of a key, made anew where it is not known.
func (s *sharer[K, V]) of(key K, newValue func() V) V {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	value, isKnown := s.known[key]
	if isKnown {
		return value
	}
	if s.known == nil || len(s.known) >= shareable {
		s.known = map[K]V{}
	}
	value = newValue()
	s.known[key] = value
	return value
}
