package sizetable

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// liveTable creates, changes and deletes a namespace's table through the sizes of scalers, and
// waits for each result.
func liveTable(t *testing.T, namespace string) {
	t.Helper()
	web := createScaler(t, namespace, "web", "web", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: small}}})
	setSizing(t, web, sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	api := createScaler(t, namespace, "api", "api", sizing("app", huge))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}, "api": {"app": {Requests: huge}}})
	testenv.Delete(t, env, web)
	waitForTable(t, namespace, deployments{"api": {"app": {Requests: huge}}})
	setSizing(t, api)
	waitUntilNoTable(t, namespace)
}

// methods are those that change a table.
var methods = []string{http.MethodPost, http.MethodPatch, http.MethodDelete}

func TestFailedWritesAreRetriedUntilTheySucceed(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var changes []testenv.Change
	failures := map[string]*atomic.Int64{}
	for _, method := range methods {
		failures[method] = &atomic.Int64{}
		failures[method].Store(5)
		changes = append(changes, failWrites(method, failures[method]))
	}
	startManager(t, namespace, changes...)
	liveTable(t, namespace)
	for method, left := range failures {
		assert.Negative(t, left.Load(), "%s failed five times before it succeeded", method)
	}
}

func TestLostResponsesLeadToTheRightTable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var changes []testenv.Change
	responses := map[string]*atomic.Int64{}
	for _, method := range methods {
		responses[method] = &atomic.Int64{}
		responses[method].Store(1)
		changes = append(changes, loseResponses(method, responses[method]))
	}
	m := startManager(t, namespace, changes...)
	liveTable(t, namespace)
	for method, left := range responses {
		assert.LessOrEqual(t, left.Load(), int64(0), "a response to %s was lost", method)
	}
	m.assertNoWrite(t, func() { testenv.Create(t, env, testenv.NewScaler(namespace, "another", "another")) })
}

func TestConflictIsRetriedAndLosesNoChange(t *testing.T) {
	t.Parallel()
	update := func(change func(*autoscalingv1beta1.SizeTable)) func(context.Context, *autoscalingv1beta1.SizeTable) error {
		return func(ctx context.Context, table *autoscalingv1beta1.SizeTable) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(table), table); err != nil {
				return err
			}
			change(table)
			return env.Client.Update(ctx, table)
		}
	}
	for method, disturb := range map[string]func(context.Context, *autoscalingv1beta1.SizeTable) error{
		http.MethodPost: func(ctx context.Context, table *autoscalingv1beta1.SizeTable) error {
			table.Deployments = deployments{"foreign": {"app": {Requests: huge}}}
			return env.Client.Create(ctx, table)
		},
		http.MethodPatch: update(func(table *autoscalingv1beta1.SizeTable) {
			addLabel(table)
			delete(table.Deployments, "cron") // The patch that is about to be sent does not contain it.
		}),
		http.MethodDelete: update(addLabel),
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			cron := createScaler(t, namespace, "cron", "cron", sizing("app", small))
			want := deployments{"cron": {"app": {Requests: small}}}
			if method != http.MethodPost {
				previous := startManager(t, namespace)
				waitForTable(t, namespace, want)
				previous.Stop()
			}
			if method == http.MethodDelete {
				setSizing(t, cron)
			} else {
				for _, name := range []string{"web", "api"} {
					createScaler(t, namespace, name, name, sizing("app", large))
					want[name] = podSize{"app": {Requests: large}}
				}
			}

			m := startManager(t, namespace, beforeWrite(method, func() { assert.NoError(t, disturb(t.Context(), sizeTable(namespace))) }))

			if method == http.MethodDelete {
				waitUntilNoTable(t, namespace)
			} else {
				table := waitForTable(t, namespace, want)
				if method == http.MethodPatch {
					assert.Equal(t, "web", table.Labels["team"], "the label of somebody else stays")
				}
			}
			statuses := m.writes.statuses(t)
			assert.Equal(t, http.StatusConflict, statuses[0])
			assert.Equal(t, http.StatusOK, statuses[len(statuses)-1])
		})
	}
}

// The namespace stays in this state, because no controller of namespaces runs here.
func TestTerminatingNamespaceCausesNoRetries(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	createScaler(t, namespace, "s", "web", sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	testenv.Delete(t, env, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	testenv.Delete(t, env, sizeTable(namespace))

	require.Eventually(t, func() bool { return len(m.writes.all()) == 2 }, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(m.writes.all()) > 2 }, 2*testenv.Quiet+writeInterval, testenv.Poll)
	assert.Equal(t, []string{http.MethodPost, http.MethodPost}, m.writes.methods())
	assert.Equal(t, []int{http.StatusCreated, http.StatusForbidden}, m.writes.statuses(t))
}

// The controller of VerticalScalers uses the same client.
func TestHangingStatusWriteDoesNotDelayTheTable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	started, release := make(chan struct{}), make(chan struct{})
	hang := func(_ *ctrl.Options, config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return testenv.RoundTripper(func(request *http.Request) (*http.Response, error) {
				if strings.HasSuffix(request.URL.Path, "/status") {
					close(started)
					<-release
					return nil, errors.New("timeout")
				}
				return next.RoundTrip(request)
			})
		})
	}
	end := sync.OnceFunc(func() { close(release) })
	m := startManager(t, namespace, hang)
	t.Cleanup(end) // Before the manager stops.
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "slow", "slow"))
	written := make(chan error, 1)
	go func() { written <- m.client.Status().Patch(t.Context(), scaler.DeepCopy(), client.MergeFrom(scaler)) }()
	<-started

	createScaler(t, namespace, "s", "web", sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})

	end()
	require.Error(t, <-written)
}
