package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestScalerLeavesItsTargetExactlyAsItIs(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var wrote writes
	m := startManager(t, namespace, wrote.record)
	before := create(t, foreign(namespace, "web")).DeepCopy()
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	scalerIs(t, scaler, isFalse, "Suspended")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec = newScaler("", "", "other").Spec })
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec = newScaler("", "", "web").Spec })
	scalerIs(t, scaler, isFalse, "NoPods")
	remove(t, scaler)
	gone(t, scaler)
	assert.Never(t, func() bool { return len(wrote.to("/deployments")) > 0 }, aWhile, often)
	m.stop()

	after := refresh(t, &appsv1.Deployment{ObjectMeta: *before.ObjectMeta.DeepCopy()})
	assert.Equal(t, before.ResourceVersion, after.ResourceVersion)
	assert.Equal(t, before.Spec, after.Spec)
	assert.Empty(t, after.OwnerReferences)
	require.NotEmpty(t, after.ManagedFields)
	for _, fields := range after.ManagedFields {
		assert.NotContains(t, fields.Manager, "upright")
	}
	assert.Empty(t, wrote.to("/deployments"))
	assert.NotEmpty(t, wrote.to("/verticalscalers/s/status"), "writes are seen")
}

func TestScalersWriteNothingInASteadyStateAndAfterARestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var wrote writes
	m := startManager(t, namespace, wrote.record)
	rivals(t, namespace)
	waiting := create(t, newScaler(namespace, "waiting", "nobody"))
	scalerIs(t, waiting, isFalse, "DeploymentNotFound")
	suspended := newScaler(namespace, "suspended", "paused")
	suspended.Spec.Suspend = true
	scalerIs(t, create(t, suspended), isFalse, "Suspended")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, wrote.to("/events"), 4, "the events of four scalers")
	}, soon, often)
	before := len(wrote.all())
	assert.Never(t, func() bool { return len(wrote.all()) > before }, aWhile, often)
	assert.Len(t, wrote.to("/status"), 4, "one write a scaler")
	m.stop()

	var wroteAgain writes
	var passes flakyCache
	m = startManager(t, namespace, wroteAgain.record, passes.use)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, passes.lists.Load(), int64(4+4+1), "a pass a scaler, and each scaler's and Deployment's event mapped")
	}, soon, often)
	assert.Never(t, func() bool { return len(wroteAgain.all()) > 0 }, aWhile, often)
	m.stop()
	assert.Empty(t, wroteAgain.all())
}

func TestScalerTellsOfTransitionsOnlyAndOnce(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var passes flakyCache
	startManager(t, namespace, passes.use)
	create(t, foreign(namespace, "web"))
	elder := create(t, newScaler(namespace, "z-elder", "web"))
	scalerIs(t, elder, isFalse, "NoPods")
	nextSecond(t, elder)
	scaler := create(t, newScaler(namespace, "s", "web"))
	tells := func(want map[string]int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, told(c, scaler)) }, soon, often)
	}
	tells(map[string]int{"Conflicted": 1})
	remove(t, elder)
	tells(map[string]int{"Conflicted": 1, "NoPods": 1})
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	tells(map[string]int{"Conflicted": 1, "NoPods": 1, "Suspended": 1})

	// A pass that writes the status, but has nothing to tell.
	before := passes.lists.Load()
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	scalerIs(t, scaler, isFalse, "Suspended")
	require.Greater(t, passes.lists.Load(), before)
	all := map[string]int{"Conflicted": 1, "NoPods": 1, "Suspended": 1}
	looked := scaler.DeepCopy() // The last look may outlast the wait.
	assert.Never(t, func() bool { return !assert.ObjectsAreEqual(all, told(t, looked)) }, aWhile, often)
	warnings := eventsOf(t, scaler, "Conflicted")
	require.Len(t, warnings, 1)
	assert.Equal(t, "Warning", warnings[0].Type)
	assert.Contains(t, warnings[0].Note, `VerticalScaler "z-elder" is older`)
	found := eventsOf(t, scaler, "NoPods")
	require.Len(t, found, 1)
	assert.Equal(t, "Normal", found[0].Type)
}

// failStatus lets the first requests that write a scaler's status fail.
func failStatus(failures *atomic.Int64, fail func() (*http.Response, error)) func(*ctrl.Options, *rest.Config) {
	return func(_ *ctrl.Options, config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if strings.HasSuffix(request.URL.Path, "/status") && failures.Add(-1) >= 0 {
					return fail()
				}
				return next.RoundTrip(request)
			})
		})
	}
}

func TestScalerMakesUpForAStatusThatCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() (*http.Response, error){
		"for lack of a connection": func() (*http.Response, error) { return nil, errors.New("no connection") },
		"for the API server's fault": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			var failures atomic.Int64
			failures.Store(5)
			startManager(t, namespace, failStatus(&failures, fail))
			create(t, foreign(namespace, "web"))
			scaler := create(t, newScaler(namespace, "s", "web"))
			scalerIs(t, scaler, isFalse, "NoPods")
			assert.Negative(t, failures.Load(), "it failed five times before")
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NotZero(c, told(c, scaler)["NoPods"], "what was not told at first is told")
			}, soon, often)
		})
	}
}

func TestFailedReadsAreThePassesError(t *testing.T) {
	t.Parallel()
	scaler := newScaler("one", "s", "web")
	broken := errors.New("the cache is not in the mood")
	for name, of := range map[string]struct {
		kind, want string
	}{
		"the scaler's": {"*v1beta1.VerticalScaler", ""},
		"the target's": {"*v1.PartialObjectMetadata", "get the target's metadata: "},
		"the rivals'":  {"*v1beta1.VerticalScalerList", "list the scalers of the Deployment: "},
	} {
		r := &VerticalScalerReconciler{Client: &brokenClient{scaler: scaler, kind: of.kind, err: broken}}
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(scaler)})
		require.ErrorIs(t, err, broken, name)
		assert.ErrorContains(t, err, of.want, name)
	}
}

// brokenClient knows one scaler and fails to read objects of one Go type.
type brokenClient struct {
	client.Client
	scaler *autoscalingv1beta1.VerticalScaler
	kind   string
	err    error
}

func (c *brokenClient) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if fmt.Sprintf("%T", obj) == c.kind {
		return c.err
	}
	if into, isScaler := obj.(*autoscalingv1beta1.VerticalScaler); isScaler {
		c.scaler.DeepCopyInto(into)
	}
	return nil
}

func (c *brokenClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if fmt.Sprintf("%T", list) == c.kind {
		return c.err
	}
	return nil
}
