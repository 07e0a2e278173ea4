package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The test makes the metrics API unavailable for the whole cluster, so it is not parallel.
func TestScalerReportsAnUnavailableMetricsAPIAndRecovers(t *testing.T) {
	scaler, pod := startScaledPod(t, newNamespace(t), 300)
	annotate(t, pod, annotationOOMKill, "app/1")
	eventually(t, func(c *assert.CollectT) { requireRecommendations(c, scaler, "app") })
	before := memoryOf(scaler.Status.PodTarget)
	service := &unstructured.Unstructured{}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	service.SetName("v1beta1.metrics.k8s.io")
	setBackend := func(ctx context.Context, name string) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"service": {"name": "`+name+`"}}}`))
		return env.client.Patch(ctx, service, patch)
	}
	t.Cleanup(func() { assert.NoError(t, setBackend(context.WithoutCancel(t.Context()), "metrics-server")) })
	waitForReason := func(reason, advice string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireCondition(c, refresh(c, scaler).Status.Conditions, "RecommendationReady", metav1.ConditionTrue, reason)
			requireCondition(c, scaler.Status.Conditions, "Ready", metav1.ConditionTrue, reason)
			require.Contains(c, conditionMessage(scaler, "Ready"), advice)
		})
		assert.Equal(t, before, memoryOf(scaler.Status.PodTarget), "the recommendation stays")
	}

	require.NoError(t, setBackend(t.Context(), "no-such-service"))
	waitForReason("MetricsUnavailable", "kubectl describe apiservice v1beta1.metrics.k8s.io")
	require.NoError(t, setBackend(t.Context(), "metrics-server"))
	waitForReason("Recommended", "")

	eventually(t, func(c *assert.CollectT) { require.Contains(c, eventReasons(c, scaler), "MetricsUnavailable") })
}
