package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestScalerSaysWhyUsageCannotBeReadAndRecovers takes the metrics API from everybody, so it is
// not parallel.
func TestScalerSaysWhyUsageCannotBeReadAndRecovers(t *testing.T) {
	scaler, pod := runScaled(t, newNamespace(t), 300)
	annotate(t, pod, "simulation.upright.example.com/oom-kill", "app/1")
	eventually(t, func(c *assert.CollectT) { requireRecommended(c, scaler, "app") })
	told := memoryOf(scaler.Status.PodTarget)
	service := &unstructured.Unstructured{}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	service.SetName("v1beta1.metrics.k8s.io")
	served := refresh(t, service).DeepCopy()
	served.SetResourceVersion("")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = env.client.Delete(ctx, service)
		_ = env.client.Create(ctx, served.DeepCopy())
	})
	says := func(reason, message string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireCondition(c, refresh(c, scaler).Status.Conditions, "RecommendationReady", metav1.ConditionTrue, reason)
			requireCondition(c, scaler.Status.Conditions, "Ready", metav1.ConditionTrue, reason)
			require.Equal(c, message, conditionMessage(scaler, "Ready"))
		})
		assert.Equal(t, told, memoryOf(scaler.Status.PodTarget), "it is still recommended")
	}
	const recommended = "Each container has a recommendation from its usage, see status.recommendations."

	remove(t, service)
	says("MetricsUnavailable", "Usage cannot be read: the cluster has no metrics API (metrics.k8s.io), install metrics-server.")
	create(t, served.DeepCopy())
	says("Recommended", recommended)

	edit(t, service, func(s *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(s.Object, "none-such", "spec", "service", "name"))
	})
	says("MetricsUnavailable", "Usage cannot be read: the metrics API does not answer, "+
		"see why: kubectl describe apiservice v1beta1.metrics.k8s.io.")
	edit(t, service, func(s *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(s.Object, "metrics-server", "spec", "service", "name"))
	})
	says("Recommended", recommended)

	eventually(t, func(c *assert.CollectT) { require.Contains(c, eventsOf(c, scaler), "MetricsUnavailable") })
}
