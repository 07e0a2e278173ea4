package indexers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// FooDeploymentName is the index that finds Foos by the name of the Deployment that their spec asks for.
const FooDeploymentName = "spec.deploymentName"

// AddFooDeploymentName registers the index.
func AddFooDeploymentName(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &examplev1alpha1.Foo{}, FooDeploymentName, fooDeploymentName); err != nil {
		return fmt.Errorf("index Foos by %s: %w", FooDeploymentName, err)
	}
	return nil
}

func fooDeploymentName(obj client.Object) []string {
	foo, ok := obj.(*examplev1alpha1.Foo)
	if !ok || foo.Spec.DeploymentName == "" {
		return nil
	}
	return []string{foo.Spec.DeploymentName}
}
