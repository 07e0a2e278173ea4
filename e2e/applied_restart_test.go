package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// It kills the manager, so it is not parallel.
func TestManagerThatIsKilledInARolloutStartsNoOtherAndResizesNoPodAgain(t *testing.T) {
	withoutLease := "--leader-elect=false" // That of a manager which was killed would run on.
	runManagerWith(t, withoutLease)
	resized := create(t, newChartedDeployment(newNamespace(t), 2, "Granted"))
	replaced := create(t, newChartedDeployment(newNamespace(t), 2, "Infeasible"))
	settles(t, resized)
	settles(t, replaced)
	deployments := startWatch(t, &appsv1.DeploymentList{}, replaced.Namespace)
	resizer, roller := newPromptScaler(resized.Namespace, "web"), newPromptScaler(replaced.Namespace, "web")
	create(t, resizer)
	create(t, roller)
	becomesApplied(t, resizer, metav1.ConditionTrue, "Sized")
	await(t, deployments, func(e watch.Event) bool {
		deployment, ok := e.Object.(*appsv1.Deployment)
		return ok && deployment.Generation > replaced.Generation
	})

	env.manager.Kill()
	require.NoError(t, env.startManager(t.Context(), withoutLease))

	becomesApplied(t, roller, metav1.ConditionTrue, "Sized")
	hasReconciledEverything(t)
	runsResources(t, replaced, sized, 2)
	assert.Len(t, replicaSetsOf(t, replaced.Namespace), 2)
	assert.Equal(t, 1, writtenForScalers(t, replaced.Namespace, "deployments"))
	assert.Equal(t, 2, writtenForScalers(t, resized.Namespace, "pods/resize"), "each pod once")
}
