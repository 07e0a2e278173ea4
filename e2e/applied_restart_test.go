package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// The test kills the manager, so it is not parallel.
func TestManagerKilledDuringARolloutRepeatsNeitherRolloutNorResize(t *testing.T) {
	withoutLease := "--leader-elect=false" // The Lease of a killed manager stays valid for a while.
	restartManagerWith(t, withoutLease)
	resizable := create(t, newWebDeployment(newNamespace(t), 2, "Granted"))
	blocked := create(t, newWebDeployment(newNamespace(t), 2, "Infeasible"))
	waitForSettled(t, resizable)
	waitForSettled(t, blocked)
	deployments := startWatch(t, &appsv1.DeploymentList{}, blocked.Namespace)
	resizing, replacing := newImmediateScaler(resizable.Namespace, "web"), newImmediateScaler(blocked.Namespace, "web")
	create(t, resizing)
	create(t, replacing)
	waitForApplied(t, resizing, metav1.ConditionTrue, "Sized")
	waitForWatchEvent(t, deployments, func(e watch.Event) bool {
		deployment, ok := e.Object.(*appsv1.Deployment)
		return ok && deployment.Generation > blocked.Generation
	})

	env.manager.Kill()
	require.NoError(t, env.startManager(t.Context(), withoutLease))

	waitForApplied(t, replacing, metav1.ConditionTrue, "Sized")
	waitForAllReconciled(t)
	waitForResources(t, blocked, recommendedResources, 2)
	assert.Len(t, replicaSetNames(t, blocked.Namespace), 2)
	assert.Equal(t, 1, countScalerWrites(t, blocked.Namespace, "deployments"))
	assert.Equal(t, 2, countScalerWrites(t, resizable.Namespace, "pods/resize"), "one write for each pod")
}
