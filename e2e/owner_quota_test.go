package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnerIsDegradedWhileAQuotaRefusesItsPods(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		quota := createPodQuota(t, namespace, 1)
		owner := k.newOwner(namespace, "app", 2)

		create(t, owner)

		message := waitForDegraded(t, owner, "PodsRefused")
		eventually(t, func(c *assert.CollectT) { requireWarningEvent(c, owner, "PodsRefused", message) })
		setPodQuota(t, quota, 2)
		waitForReady(t, owner)
		waitForPods(t, getDeployment(t, namespace, "app"), 2)
		status := statusOf(t, owner)
		requireCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		waitForEvents(t, k, owner, "PodsRefused", "Recovered")
	})
}

// createPodQuota limits the number of pods in a namespace, and waits until the quota is in force.
func createPodQuota(t *testing.T, namespace string, pods int64) *corev1.ResourceQuota {
	t.Helper()
	quota := create(t, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pods"}})
	setPodQuota(t, quota, pods)
	return quota
}

// setPodQuota changes the quota and waits until it is in force.
func setPodQuota(t *testing.T, quota *corev1.ResourceQuota, pods int64) {
	t.Helper()
	limit := *resource.NewQuantity(pods, resource.DecimalSI)
	edit(t, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: limit} })
	eventually(t, func(c *assert.CollectT) {
		refresh(c, quota)
		require.Equal(c, pods, quota.Status.Hard.Pods().Value())
		require.Contains(c, quota.Status.Used, corev1.ResourcePods)
	})
}
