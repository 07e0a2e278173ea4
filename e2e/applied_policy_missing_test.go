package e2e_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The test deletes the cluster's admission policy, so it is not parallel.
func TestWithoutAdmissionPolicyPodsAreResizedAndNotReplaced(t *testing.T) {
	policy := filepath.Join(deploy, "admission")
	install := func(ctx context.Context) {
		_, err := env.Kubectl(ctx, "apply", "--server-side", "-k", policy)
		assert.NoError(t, err)
	}
	resizable := create(t, newWebDeployment(newNamespace(t), 2, "Granted"))
	blocked := create(t, newWebDeployment(newNamespace(t), 2, "Infeasible"))
	waitForSettled(t, resizable)
	waitForSettled(t, blocked)
	_, err := env.Kubectl(t.Context(), "delete", "-k", policy)
	require.NoError(t, err)
	t.Cleanup(func() { install(context.WithoutCancel(t.Context())) })

	resizing, replacing := newImmediateScaler(resizable.Namespace, "web"), newImmediateScaler(blocked.Namespace, "web")
	create(t, resizing)
	create(t, replacing)

	waitForApplied(t, resizing, metav1.ConditionFalse, "AdmissionPolicyMissing")
	eventually(t, func(c *assert.CollectT) { require.Contains(c, eventReasons(c, resizing), "AdmissionPolicyMissing") })
	waitForResources(t, resizable, recommendedResources, 2)
	kubectl(t, resizable.Namespace, "scale", "deployment", "web", "--replicas=3")
	waitForResources(t, resizable, recommendedResources, 3)
	assert.Equal(t, 3, countScalerWrites(t, resizable.Namespace, "pods/resize"), "the third pod started with the template's resources")
	waitForApplied(t, replacing, metav1.ConditionFalse, "AdmissionPolicyMissing")
	waitForUsageRead(t, env.manager, blocked.Namespace, replacing.CreationTimestamp.Time)
	assert.Zero(t, countScalerWrites(t, blocked.Namespace, "deployments"), "new pods would get the template's resources")

	install(t.Context())

	waitForApplied(t, resizing, metav1.ConditionTrue, "Sized")
	waitForApplied(t, replacing, metav1.ConditionTrue, "Sized")
	waitForResources(t, blocked, recommendedResources, 2)
	assert.Equal(t, 1, countScalerWrites(t, blocked.Namespace, "deployments"))
	assert.Zero(t, countScalerWrites(t, resizable.Namespace, "deployments"))
}
