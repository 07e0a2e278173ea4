package indexers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
)

// MemcachedName is the index that finds Memcacheds by the name of their Deployment, which is their own.
const MemcachedName = "metadata.name"

// AddMemcachedName registers the index.
func AddMemcachedName(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &cachev1alpha1.Memcached{}, MemcachedName, memcachedName); err != nil {
		return fmt.Errorf("index Memcacheds by %s: %w", MemcachedName, err)
	}
	return nil
}

func memcachedName(obj client.Object) []string {
	return []string{obj.GetName()}
}
