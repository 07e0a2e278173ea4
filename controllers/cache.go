package controllers

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

// CacheOptions returns the options of the manager's cache, for the given namespaces or, where
// there are none, for all. Of Upright's own Deployments the cache holds everything, of all
// others, which may be many, only what identifies them.
func CacheOptions(namespaces []string) cache.Options {
	options := cache.Options{
		DefaultTransform:            new(trimmer).trim,
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
