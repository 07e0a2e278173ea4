package pods

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Running returns the pods that run and are not being deleted, sorted by name.
func Running(pods []corev1.Pod) []*corev1.Pod {
	var running []*corev1.Pod
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp.IsZero() {
			running = append(running, &pods[i])
		}
	}
	slices.SortFunc(running, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return running
}

// IsReady reports whether a pod is ready. The cache drops the Ready condition of ready pods,
// so a missing condition means ready.
func IsReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue
	})
}

// Newest returns the newest pod that has neither ended nor is being deleted, or nil. During a
// rollout it has the containers of the new template. The name decides between pods of the same
// second, so the result does not depend on the order of the list.
func Newest(pods []corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if !IsLive(pod) {
			continue
		}
		if newest == nil || cmp.Or(pod.CreationTimestamp.Compare(newest.CreationTimestamp.Time), cmp.Compare(pod.Name, newest.Name)) > 0 {
			newest = pod
		}
	}
	return newest
}

// IsLive reports whether a pod has neither ended nor is being deleted. An evicted pod stays as
// a failed one until somebody deletes it.
func IsLive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp.IsZero()
}

// TemplateHash returns the hash of the template that a Deployment's pod was created from.
func TemplateHash(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }

// Unschedulable returns the pods of the newest template that the scheduler cannot place. It
// skips pods of older templates because their size is for another template.
func Unschedulable(pods []corev1.Pod) []*corev1.Pod {
	latest := Newest(pods)
	if latest == nil {
		return nil
	}
	var found []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if UnschedulableCondition(pod) != nil && IsLive(pod) && TemplateHash(pod) == TemplateHash(latest) {
			found = append(found, pod)
		}
	}
	return found
}

// UnschedulableCondition returns the condition that the scheduler sets if a pod fits on no
// node, or nil.
func UnschedulableCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return condition
		}
	}
	return nil
}

// Runs reports whether a container of a pod runs and its pod is not being deleted.
func Runs(pod *corev1.Pod, container string) bool {
	isRunning := func(status corev1.ContainerStatus) bool {
		return status.Name == container && status.State.Running != nil
	}
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero() &&
		(slices.ContainsFunc(pod.Status.ContainerStatuses, isRunning) || slices.ContainsFunc(pod.Status.InitContainerStatuses, isRunning))
}
