package e2e_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// It takes the policy away from everybody, so it is not parallel.
func TestWithoutTheAdmissionPolicyPodsAreResizedInPlaceAndNoneIsReplacedUntilItIsBack(t *testing.T) {
	policy := filepath.Join(deploy, "admission")
	install := func(ctx context.Context) {
		_, err := env.Kubectl(ctx, "apply", "--server-side", "-k", policy)
		assert.NoError(t, err)
	}
	resized := create(t, newChartedDeployment(newNamespace(t), 2, "Granted"))
	stuck := create(t, newChartedDeployment(newNamespace(t), 2, "Infeasible"))
	settles(t, resized)
	settles(t, stuck)
	_, err := env.Kubectl(t.Context(), "delete", "-k", policy)
	require.NoError(t, err)
	t.Cleanup(func() { install(context.WithoutCancel(t.Context())) })

	resizer, roller := newPromptScaler(resized.Namespace, "web"), newPromptScaler(stuck.Namespace, "web")
	create(t, resizer)
	create(t, roller)

	becomesApplied(t, resizer, metav1.ConditionFalse, "AdmissionPolicyMissing")
	assert.Contains(t, conditionMessage(resizer, "Applied"), "kubectl apply -k deploy/admission", "what to do")
	eventually(t, func(c *assert.CollectT) { require.Contains(c, eventsOf(c, resizer), "AdmissionPolicyMissing") })
	runsResources(t, resized, sized, 2)
	kubectl(t, resized.Namespace, "scale", "deployment", "web", "--replicas=3")
	runsResources(t, resized, sized, 3)
	assert.Equal(t, 3, writtenForScalers(t, resized.Namespace, "pods/resize"), "the third was born as its template says")
	becomesApplied(t, roller, metav1.ConditionFalse, "AdmissionPolicyMissing")
	readsUsage(t, env.manager, stuck.Namespace, roller.CreationTimestamp.Time)
	assert.Zero(t, writtenForScalers(t, stuck.Namespace, "deployments"), "new pods would be no better")

	install(t.Context())

	becomesApplied(t, resizer, metav1.ConditionTrue, "Sized")
	becomesApplied(t, roller, metav1.ConditionTrue, "Sized")
	runsResources(t, stuck, sized, 2)
	assert.Equal(t, 1, writtenForScalers(t, stuck.Namespace, "deployments"))
	assert.Zero(t, writtenForScalers(t, resized.Namespace, "deployments"))
}
