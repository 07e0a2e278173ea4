package controllers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestADeploymentsEventIsNotLostWhenItsLookupFails(t *testing.T) {
	t.Parallel()
	for _, k := range []int64{1, 3, 7} {
		t.Run(fmt.Sprintf("%d times", k), func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			var flaky flakyCache
			m := startManager(t, namespace, flaky.use)
			scaler := create(t, newScaler(namespace, "s", "web"))
			scalerIs(t, scaler, isFalse, "DeploymentNotFound")
			assert.Zero(t, mapFailures(t, m, "deployment-to-verticalscalers"))

			flaky.failures.Store(k)
			d := create(t, foreign(namespace, "web"))
			scalerIs(t, scaler, isFalse, "NoPods")
			assert.InDelta(t, k, mapFailures(t, m, "deployment-to-verticalscalers"), 0)

			flaky.failures.Store(k)
			remove(t, d)
			scalerIs(t, scaler, isFalse, "DeploymentNotFound")
			assert.InDelta(t, 2*k, mapFailures(t, m, "deployment-to-verticalscalers"), 0)
			assert.Zero(t, mapFailures(t, m, "verticalscaler-to-siblings"))
		})
	}
}

func TestASiblingsEventIsNotLostWhenItsLookupFails(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var flaky flakyCache
	m := startManager(t, namespace, flaky.use)
	elder, younger := rivals(t, namespace)
	flaky.failures.Store(3)
	remove(t, elder)
	scalerIs(t, younger, isFalse, "NoPods")
	assert.InDelta(t, 3, mapFailures(t, m, "verticalscaler-to-siblings"), 0)
}

// requests are what a manager asks of the API server, watches aside.
type requests struct {
	mu   sync.Mutex
	seen []string
}

func (r *requests) count(_ *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if !request.URL.Query().Has("watch") {
				r.mu.Lock()
				r.seen = append(r.seen, request.Method+" "+request.URL.Path)
				r.mu.Unlock()
			}
			return next.RoundTrip(request)
		})
	})
}

// take returns the requests since it was last called.
func (r *requests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

func TestDeploymentsEventsAreMappedWithoutAnApiCall(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var asks requests
	var looks flakyCache
	startManager(t, namespace, asks.count, looks.use)
	for i := range 10 {
		s := create(t, newScaler(namespace, fmt.Sprintf("s-%d", i), fmt.Sprintf("web-%d", i)))
		create(t, foreign(namespace, fmt.Sprintf("web-%d", i)))
		scalerIs(t, s, isFalse, "NoPods")
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NotZero(c, told(c, s)["NoPods"]) }, soon, often)
	}
	assert.NotEmpty(t, asks.take(), "requests are counted")
	before := looks.lists.Load()
	for i := range 10 {
		rollOut(t, foreign(namespace, fmt.Sprintf("web-%d", i)))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, looks.lists.Load(), before+20, "ten events mapped, ten passes made")
	}, soon, often)
	assert.Empty(t, asks.take())
}

// stopwatch measures, as the manager sees it, the time from a Deployment's event to the
// request that writes a scaler's status.
type stopwatch struct {
	mu     sync.Mutex
	events []time.Time
	writes []time.Time
}

func (s *stopwatch) use(options *ctrl.Options, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/status") {
				s.note(&s.writes) // Before the test can see it.
			}
			return next.RoundTrip(request)
		})
	})
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		inner, err := cache.New(config, options)
		if err != nil {
			return nil, err
		}
		deployments, err := inner.GetInformer(context.Background(), newDeploymentMetadata(), cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		_, err = deployments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { s.note(&s.events) },
			DeleteFunc: func(any) { s.note(&s.events) },
		})
		return inner, err
	}
}

func (s *stopwatch) note(times *[]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*times = append(*times, time.Now())
}

func (s *stopwatch) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.writes = nil, nil
}

// elapsed returns the time from the one event to the one write since the last reset.
func (s *stopwatch) elapsed(t *testing.T) time.Duration {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.events, 1)
	require.Len(t, s.writes, 1, "a status write")
	return s.writes[0].Sub(s.events[0])
}

func TestAScalersStatusFollowsItsTargetWithinASecond(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var watch stopwatch
	startManager(t, namespace, watch.use)
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	change := func(what string, change func(), status metav1.ConditionStatus, reason string) {
		t.Helper()
		watch.reset()
		change()
		scalerIs(t, scaler, status, reason)
		elapsed := watch.elapsed(t)
		t.Logf("%s: %v", what, elapsed)
		assert.Less(t, elapsed, time.Second, what)
	}
	for range 5 {
		d := foreign(namespace, "web")
		change("creation", func() { create(t, d) }, isFalse, "NoPods")
		change("deletion", func() { remove(t, d) }, isFalse, "DeploymentNotFound")
	}
	assert.Equal(t, autoscalingv1beta1.ReasonDeploymentNotFound, condition(scaler.Status, "TargetFound").Reason)
}
