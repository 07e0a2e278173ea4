package controllers

import (
	"slices"
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
	pod.Spec = corev1.PodSpec{
		InitContainers: t.trimContainers(slices.DeleteFunc(pod.Spec.InitContainers, isNoSidecar)),
		Containers:     t.trimContainers(pod.Spec.Containers),
	}
	before := pod.Status
	pod.Status = corev1.PodStatus{
		InitContainerStatuses: oomKills(before.InitContainerStatuses),
		ContainerStatuses:     oomKills(before.ContainerStatuses),
	}
	if before.Phase == corev1.PodFailed || before.Phase == corev1.PodSucceeded {
		pod.Status.Phase = before.Phase
	}
}

func (t *trimmer) trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		trimmed[i] = corev1.Container{
			Name:          containers[i].Name,
			RestartPolicy: containers[i].RestartPolicy,
			Resources:     corev1.ResourceRequirements{Requests: t.sized(containers[i].Resources.Requests)},
		}
	}
	return trimmed
}

// oomKills returns the statuses of those containers that ran out of memory, and of these no more than that.
func oomKills(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var killed []corev1.ContainerStatus
	for i := range statuses {
		if end := oomKill(statuses[i]); end != nil {
			killed = append(killed, corev1.ContainerStatus{
				Name: statuses[i].Name,
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: end.Reason, FinishedAt: end.FinishedAt,
				}},
			})
		}
	}
	return killed
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
