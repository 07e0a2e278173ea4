package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestEventsAreRecordedOncePerTransition(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var reconciles testenv.Reconciles
	startManager(t, namespace, reconciles.Count)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	older := testenv.Create(t, env, testenv.NewScaler(namespace, "z-older", "web"))
	waitForNotReady(t, older, "NoPods")
	testenv.WaitForNextSecond(t, older)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForEvents := func(want map[string]int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, want, testenv.EventReasons(c, env, scaler))
		}, testenv.Timeout, testenv.Poll)
	}
	waitForEvents(map[string]int{"Conflicted": 1})
	testenv.Delete(t, env, older)
	waitForEvents(map[string]int{"Conflicted": 1, "NoPods": 1})
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
	all := map[string]int{"Conflicted": 1, "NoPods": 1, "Suspended": 1}
	waitForEvents(all)

	// A reconcile that writes the status but changes no reason.
	reconciled := reconciles.Of(scaler)
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = "Off" })
	waitForNotReady(t, scaler, "Suspended")
	require.Greater(t, reconciles.Of(scaler), reconciled)
	observed := scaler.DeepCopy() // The last check may continue after Never returns.
	assert.Never(t, func() bool {
		return !assert.ObjectsAreEqual(all, testenv.EventReasons(t, env, observed))
	}, testenv.Quiet, testenv.Poll)
	warnings := testenv.Events(t, env, scaler, "Conflicted")
	require.Len(t, warnings, 1)
	assert.Equal(t, corev1.EventTypeWarning, warnings[0].Type)
	assert.Contains(t, warnings[0].Note, `VerticalScaler "z-older" is older`)
	found := testenv.Events(t, env, scaler, "NoPods")
	require.Len(t, found, 1)
	assert.Equal(t, corev1.EventTypeNormal, found[0].Type)
}
