package verticalscaler

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestDeploymentEventSurvivesFailedLookups(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{1, 3, 7} {
		t.Run(fmt.Sprintf("%d failures", failures), func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			var lookups mapperLookups
			m := startManager(t, namespace, lookups.Observe)
			scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
			waitForNotReady(t, scaler, "DeploymentNotFound")
			assert.Zero(t, mapperFailures(t, m, "deployment-to-verticalscalers"))

			lookups.toFail.Store(int64(failures))
			d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
			waitForNotReady(t, scaler, "NoPods")
			assert.Equal(t, failures, mapperFailures(t, m, "deployment-to-verticalscalers"))

			lookups.toFail.Store(int64(failures))
			testenv.Delete(t, env, d)
			waitForNotReady(t, scaler, "DeploymentNotFound")
			assert.Equal(t, 2*failures, mapperFailures(t, m, "deployment-to-verticalscalers"))
			assert.Zero(t, mapperFailures(t, m, "verticalscaler-to-siblings"))
		})
	}
}

func TestSiblingEventSurvivesFailedLookups(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var lookups mapperLookups
	m := startManager(t, namespace, lookups.Observe)
	older, younger := createConflict(t, namespace)
	lookups.toFail.Store(3)
	testenv.Delete(t, env, older)
	waitForNotReady(t, younger, "NoPods")
	assert.Equal(t, 3, mapperFailures(t, m, "verticalscaler-to-siblings"))
}

// requests records the requests of a manager that are not watches.
type requests struct {
	mutex sync.Mutex
	seen  []string
}

func (r *requests) record(request *http.Request) (*http.Response, error) {
	if !request.URL.Query().Has("watch") {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.seen = append(r.seen, request.Method+" "+request.URL.Path)
	}
	return nil, nil
}

// all returns the method and path of every request so far.
func (r *requests) all() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.seen)
}

func TestDeploymentEventsCauseNoAPIRequests(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var sent requests
	var lookups mapperLookups
	var reconciles testenv.Reconciles
	startManager(t, namespace, testenv.Fault(sent.record), lookups.Observe, reconciles.Count)
	const count = 10
	scalers := make([]*autoscalingv1beta1.VerticalScaler, count)
	for i := range scalers {
		name := fmt.Sprintf("web-%d", i)
		scalers[i] = testenv.Create(t, env, testenv.NewScaler(namespace, fmt.Sprintf("s-%d", i), name))
		testenv.Create(t, env, testenv.NewDeployment(namespace, name))
		waitForNotReady(t, scalers[i], "NoPods")
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NotZero(c, testenv.EventReasons(c, env, scalers[i])["NoPods"])
		}, testenv.Timeout, testenv.Poll)
	}
	sentBefore, lookupsBefore := len(sent.all()), lookups.succeeded.Load()
	require.NotZero(t, sentBefore, "the requests are recorded")
	reconcilesBefore := make([]int, count)
	for i := range scalers {
		reconcilesBefore[i] = reconciles.Of(scalers[i])
	}
	for i := range scalers {
		testenv.MarkAvailable(t, env, testenv.NewDeployment(namespace, fmt.Sprintf("web-%d", i)))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, lookups.succeeded.Load(), lookupsBefore+count)
		for i := range scalers {
			assert.Greater(c, reconciles.Of(scalers[i]), reconcilesBefore[i], scalers[i].Name)
		}
	}, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(sent.all()) > sentBefore }, testenv.Quiet, testenv.Poll)
	assert.Empty(t, sent.all()[sentBefore:])
}

func TestTargetEventCausesOneStatusWrite(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var writes testenv.Writes
	startManager(t, namespace, writes.Record)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "DeploymentNotFound")
	for range 5 {
		before := len(writes.To("/status"))
		d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
		status := waitForNotReady(t, scaler, "NoPods")
		testenv.AssertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
		assert.Len(t, writes.To("/status"), before+1, "after the creation")
		testenv.Delete(t, env, d)
		status = waitForNotReady(t, scaler, "DeploymentNotFound")
		testenv.AssertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
		assert.Len(t, writes.To("/status"), before+2, "after the deletion")
	}
}
