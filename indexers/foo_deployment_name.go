package indexers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// FooDeploymentName indexes Foos by the name of the Deployment in their spec.
const FooDeploymentName = "spec.deploymentName"

func fooDeploymentName(obj client.Object) []string {
	foo, ok := obj.(*examplev1alpha1.Foo)
	if !ok || foo.Spec.DeploymentName == "" {
		return nil
	}
	return []string{foo.Spec.DeploymentName}
}
