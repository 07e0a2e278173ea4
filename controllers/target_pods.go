package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/internal/histories"
)

// reasonOOMKilled is the reason that the kubelet gives where a container ran out of memory.
const reasonOOMKilled = "OOMKilled"

// podsOf returns the pods of the Deployment that a scaler names, read-only.
func podsOf(ctx context.Context, cache client.Reader, scaler *autoscalingv1beta1.VerticalScaler) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := cache.List(ctx, &pods,
		client.InNamespace(scaler.Namespace),
		client.MatchingFields{indexers.PodDeployment: scaler.Spec.DeploymentName},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list the Deployment's pods: %w", err)
	}
	return pods.Items, nil
}

// newest returns the newest of the pods that may run, nil where there is none. During a
// rollout it is one that has the containers which all will have. Of pods of one second it is
// always the same, in whatever order the cache lists them.
func newest(pods []corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if ended(pod) || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if newest == nil || cmp.Or(pod.CreationTimestamp.Compare(newest.CreationTimestamp.Time), cmp.Compare(pod.Name, newest.Name)) > 0 {
			newest = pod
		}
	}
	return newest
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// sizable yields the containers of a pod that are sized: those that run as long as the pod
// does. Of the init containers, these are the sidecars.
func sizable(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), isNoSidecar), pod.Spec.Containers)
}

func isNoSidecar(container corev1.Container) bool {
	return container.RestartPolicy == nil || *container.RestartPolicy != corev1.ContainerRestartPolicyAlways
}

// kills returns the last OOM kill of each container of a pod that was killed so.
func kills(pod *corev1.Pod) []histories.Kill {
	var found []histories.Kill
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		last := oomKill(status)
		if last == nil {
			continue
		}
		for _, container := range sizable(pod) {
			if container.Name == status.Name {
				found = append(found, histories.Kill{
					Pod: pod.UID, Container: container.Name, FinishedAt: last.FinishedAt.Time,
					Request: container.Resources.Requests.Memory().Value(),
				})
			}
		}
	}
	return found
}

// oomKill returns the last end of a container if it ran out of memory, else nil.
func oomKill(status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, end := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if end != nil && end.Reason == reasonOOMKilled {
			return end
		}
	}
	return nil
}

// learnKills adds the OOM kills that pods show to a record, each once, and returns how many
// were new. While the scaler is suspended they count for nothing, then or later.
func learnKills(record *histories.Record, pods []corev1.Pod, isSuspended bool) (int, error) {
	present := make(map[types.UID]bool, len(pods))
	counted := 0
	for i := range pods {
		present[pods[i].UID] = true
		for _, kill := range kills(&pods[i]) {
			if isSuspended {
				record.SkipKill(kill)
				continue
			}
			isNew, err := record.AddKill(kill)
			if err != nil {
				return counted, fmt.Errorf("count an OOM kill of pod %s: %w", pods[i].Name, err)
			}
			if isNew {
				counted++
			}
		}
	}
	record.KeepKills(func(pod types.UID) bool { return present[pod] })
	return counted, nil
}

// hasSizable reports whether a pod has a container of the name that is sized.
func hasSizable(pod *corev1.Pod, name string) bool {
	isNamed := func(container corev1.Container) bool { return container.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, isNamed) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(container corev1.Container) bool {
			return isNamed(container) && !isNoSidecar(container)
		})
}
