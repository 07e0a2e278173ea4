package indexers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// BusyboxName is the index that finds Busyboxes by the name of their Deployment, which is their own.
const BusyboxName = "metadata.name"

// AddBusyboxName registers the index.
func AddBusyboxName(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &examplev1alpha1.Busybox{}, BusyboxName, busyboxName); err != nil {
		return fmt.Errorf("index Busyboxes by %s: %w", BusyboxName, err)
	}
	return nil
}

func busyboxName(obj client.Object) []string {
	return []string{obj.GetName()}
}
