package verticalscaler

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestScalerDoesNotChangeItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var writes testenv.Writes
	m := startManager(t, namespace, writes.Record)
	before := testenv.Create(t, env, testenv.NewDeployment(namespace, "web")).DeepCopy()
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "NoPods")
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
	waitForNotReady(t, scaler, "Suspended")
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { *spec = testenv.NewScaler("", "", "other").Spec })
	waitForNotReady(t, scaler, "DeploymentNotFound")
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { *spec = testenv.NewScaler("", "", "web").Spec })
	waitForNotReady(t, scaler, "NoPods")
	testenv.Delete(t, env, scaler)
	testenv.WaitUntilDeleted(t, env, scaler)
	assert.Never(t, func() bool { return len(writes.To("/deployments")) > 0 }, testenv.Quiet, testenv.Poll)
	m.Stop()

	after := testenv.Refresh(t, env, &appsv1.Deployment{ObjectMeta: *before.ObjectMeta.DeepCopy()})
	assert.Equal(t, before.ResourceVersion, after.ResourceVersion)
	assert.Equal(t, before.Spec, after.Spec)
	assert.Empty(t, after.OwnerReferences)
	require.NotEmpty(t, after.ManagedFields)
	for _, fields := range after.ManagedFields {
		assert.NotContains(t, fields.Manager, "upright")
	}
	assert.Empty(t, writes.To("/deployments"))
	assert.NotEmpty(t, writes.To("/verticalscalers/s/status"), "writes are recorded")
}

func TestSteadyStateCausesNoWritesEvenAfterARestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var writes testenv.Writes
	m := startManager(t, namespace, writes.Record)
	older, younger := createConflict(t, namespace)
	waiting := testenv.Create(t, env, testenv.NewScaler(namespace, "waiting", "missing"))
	waitForNotReady(t, waiting, "DeploymentNotFound")
	suspended := testenv.NewScaler(namespace, "suspended", "paused")
	suspended.Spec.Suspend = true
	waitForNotReady(t, testenv.Create(t, env, suspended), "Suspended")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, writes.To("/events"), 4, "one event for each scaler")
	}, testenv.Timeout, testenv.Poll)
	before := len(writes.All())
	assert.Never(t, func() bool { return len(writes.All()) > before }, testenv.Quiet, testenv.Poll)
	assert.Len(t, writes.To("/status"), 4, "one write for each scaler")
	m.Stop()

	var writesAfter testenv.Writes
	var reconciles testenv.Reconciles
	m = startManager(t, namespace, writesAfter.Record, reconciles.Count)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, scaler := range []*autoscalingv1beta1.VerticalScaler{older, younger, waiting, suspended} {
			assert.Positive(c, reconciles.Of(scaler), scaler.Name)
		}
	}, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(writesAfter.All()) > 0 }, testenv.Quiet, testenv.Poll)
	m.Stop()
	assert.Empty(t, writesAfter.All())
}

// failStatusWrites answers a number of requests to write a scaler's status with respond.
func failStatusWrites(failures *atomic.Int64, respond func() (*http.Response, error)) testenv.Change {
	return testenv.Fault(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/status") && failures.Add(-1) >= 0 {
			return respond()
		}
		return nil, nil
	})
}

func TestFailedStatusWriteIsRetried(t *testing.T) {
	t.Parallel()
	for name, respond := range map[string]func() (*http.Response, error){
		"no connection":        func() (*http.Response, error) { return nil, errors.New("no connection") },
		"the API server fails": func() (*http.Response, error) { return testenv.InternalError(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			var failures atomic.Int64
			failures.Store(5)
			startManager(t, namespace, failStatusWrites(&failures, respond))
			testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
			scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
			waitForNotReady(t, scaler, "NoPods")
			assert.Negative(t, failures.Load(), "five writes failed before")
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NotZero(c, testenv.EventReasons(c, env, scaler)["NoPods"], "the event follows the write that succeeds")
			}, testenv.Timeout, testenv.Poll)
		})
	}
}
