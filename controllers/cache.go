package controllers

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheOptions returns the options of the manager's cache, for the given namespaces or, where
// there are none, for all. Of Upright's own Deployments the cache holds everything, of all
// others, which may be many, only what identifies them.
func CacheOptions(namespaces []string) cache.Options {
	options := cache.Options{
		DefaultTransform:            trim,
		ReaderFailOnMissingInformer: true,
		NewInformer:                 newInformer,
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// ClientOptions returns the options of the manager's client: a pass sees what the pass before
// it wrote, and so writes nothing twice.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}}
}

// trim drops from an object what no controller reads.
func trim(in any) (any, error) {
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
		trimPod(obj)
	case *corev1.Node:
		obj.ObjectMeta = metav1.ObjectMeta{Name: obj.Name, ResourceVersion: obj.ResourceVersion}
		obj.Spec = corev1.NodeSpec{}
		obj.Status = corev1.NodeStatus{Allocatable: sized(obj.Status.Allocatable)}
	case client.Object:
		obj.SetManagedFields(nil)
	}
	return in, nil
}

// trimPod leaves of a pod whose it is, what its containers request, and whether they ran out
// of memory.
func trimPod(pod *corev1.Pod) {
	pod.ObjectMeta = metav1.ObjectMeta{
		Name:              pod.Name,
		Namespace:         pod.Namespace,
		UID:               pod.UID,
		ResourceVersion:   pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp,
		DeletionTimestamp: pod.DeletionTimestamp,
		OwnerReferences:   pod.OwnerReferences,
		Labels:            only(pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey),
	}
	pod.Spec = corev1.PodSpec{
		InitContainers: trimContainers(slices.DeleteFunc(pod.Spec.InitContainers, isNoSidecar)),
		Containers:     trimContainers(pod.Spec.Containers),
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

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		trimmed[i] = corev1.Container{
			Name:          containers[i].Name,
			RestartPolicy: containers[i].RestartPolicy,
			Resources:     corev1.ResourceRequirements{Requests: sized(containers[i].Resources.Requests)},
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
func sized(amounts corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, isSet := amounts[name]; isSet {
			if kept == nil {
				kept = corev1.ResourceList{}
			}
			kept[name] = amount
		}
	}
	return kept
}

// only returns one of a pod's labels, nil where it is not there.
func only(all map[string]string, key string) map[string]string {
	if value, isSet := all[key]; isSet {
		return map[string]string{key: value}
	}
	return nil
}

// newInformer is the cache's informer constructor. Whole Deployments are watched only where
// they are ours: a label selector in the cache's options would hold for the metadata of
// Deployments too, and that is needed of all of them.
func newInformer(
	lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	if _, whole := example.(*appsv1.Deployment); whole {
		lw = selecting(lw, labels.Set{managedByLabel: managedByUpright}.String())
	}
	return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
}

// selecting narrows what lw lists and watches to a label selector.
func selecting(lw toolscache.ListerWatcher, selector string) toolscache.ListerWatcher {
	all := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return all.ListWithContext(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return all.WatchWithContext(ctx, options)
		},
	}
}

// newDeploymentMetadata returns the empty metadata of a Deployment, to read into.
func newDeploymentMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
	}
}
