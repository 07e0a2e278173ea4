package owned

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
)

// absent is a resource version that no object has: etcd counts its revisions from 1, and the
// first one is the revision of an empty etcd.
const absent = "1"

// withPrecondition makes the API server return a conflict, and write nothing, if the Deployment is
// not the one that was seen. Otherwise two owners that both see that a name is free would write
// the same Deployment, and the second would take it over.
//
// If the Deployment does not exist, the API server ignores the resource version and creates it, but
// it returns a conflict if there is a UID. A create instead of an apply would be a precondition
// too, but no later apply could remove the fields that it has set.
func withPrecondition(desired *appsv1ac.DeploymentApplyConfiguration, seen metav1.Object) *appsv1ac.DeploymentApplyConfiguration {
	if seen == nil {
		return desired.WithResourceVersion(absent)
	}
	return desired.WithResourceVersion(seen.GetResourceVersion()).WithUID(seen.GetUID())
}
