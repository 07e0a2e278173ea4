// Package cache configures what the manager's cache keeps: whole Deployments only if Upright
// owns them, the metadata of all others, and of pods and nodes the fields that are read.
package cache

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The label of the Deployments that Upright owns. The cache keeps only those as a whole.
const (
	ManagedByLabel   = "app.kubernetes.io/managed-by"
	ManagedByUpright = "upright"
)

// Options returns the options of the manager's cache for the given namespaces, or for all if
// there are none.
func Options(namespaces []string) cache.Options {
	options := cache.Options{
		DefaultTransform:            new(Trimmer).Trim,
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

// ClientOptions returns the options of the manager's client. A reconcile sees what the previous
// one wrote, so nothing is written twice.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}}
}

// NewDeploymentMetadata returns the empty metadata of a Deployment, to read into.
func NewDeploymentMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
	}
}

// newInformer is the cache's informer constructor. It selects whole Deployments by Upright's
// label. A label selector in the cache's options would also apply to the metadata of
// Deployments, which the scalers need for all of them.
func newInformer(
	lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	if _, whole := example.(*appsv1.Deployment); whole {
		lw = withSelector(lw, labels.Set{ManagedByLabel: ManagedByUpright}.String())
	}
	return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
}

// withSelector restricts what lw lists and watches to a label selector.
func withSelector(lw toolscache.ListerWatcher, selector string) toolscache.ListerWatcher {
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
