package verticalscaler

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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// fault makes some requests or reads of a manager fail while it is on.
type fault struct{ isOff atomic.Bool }

// requests fails the requests of a method whose path contains part, with status 500.
func (f *fault) requests(method, part string) testenv.Change {
	return testenv.Fault(func(request *http.Request) (*http.Response, error) {
		if f.isOff.Load() || request.Method != method || !strings.Contains(request.URL.Path, part) || request.URL.Query().Get("watch") != "" {
			return nil, nil
		}
		return testenv.InternalError(), nil
	})
}

// reads fails the reads of one Go type by the manager's client.
func (f *fault) reads(kind string) testenv.Change {
	failFor := func(obj any) error {
		if !f.isOff.Load() && fmt.Sprintf("%T", obj) == kind {
			return errors.New("the cache failed")
		}
		return nil
	}
	return testenv.Intercept(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := failFor(obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := failFor(list); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// waitForUnknown waits until some of the scaler's conditions are Unknown with a reason.
func (w *workload) waitForUnknown(t *testing.T, reason string, conditionTypes ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		conditions := testenv.Refresh(c, w.env, w.scaler).Status.Conditions
		for _, conditionType := range conditionTypes {
			testenv.AssertCondition(c, conditions, conditionType, metav1.ConditionUnknown, reason)
		}
	}, testenv.Timeout, testenv.Poll)
}

// statusWrites returns how often the manager has written the scaler's status.
func (w *workload) statusWrites() int { return len(w.writes.To("/verticalscalers/")) }

// TestFailedObservationIsPublished shows the first step. After the failure, no event triggers a
// reconcile: the scaler recovers only because the failed reconcile returned its error.
func TestFailedObservationIsPublished(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]func(*fault) testenv.Change{
		"target's metadata": func(f *fault) testenv.Change { return f.reads("*v1.PartialObjectMetadata") },
		"siblings":          func(f *fault) testenv.Change { return f.reads("*v1beta1.VerticalScalerList") },
		"pods":              func(f *fault) testenv.Change { return f.reads("*v1.PodList") },
		"HPAs":              func(f *fault) testenv.Change { return f.reads("*v2.HorizontalPodAutoscalerList") },
		"whole target":      func(f *fault) testenv.Change { return f.requests(http.MethodGet, "/deployments/web") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
			var f fault
			w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record, failing(&f))
			w.waitForUnknown(t, "ObserveFailed", "TargetFound", "Applied", "Ready")
			message := testenv.ConditionMessage(w.scaler.Status.Conditions, "Applied")
			assert.True(t, strings.HasPrefix(message, "Cannot read the objects that the VerticalScaler depends on ("), message)
			assert.True(t, strings.HasSuffix(message, "). The controller retries."), message)
			assert.Zero(t, w.scaler.Status.ObservedGeneration, "the status does not reflect the spec")
			assert.Zero(t, w.resizes())
			f.isOff.Store(true)
			w.waitForApplied(t, isFalse, "Resizing")
			w.waitForResources(t, w.pods[0], 0, large, nil)
		})
	}
}

func TestFailedObservationKeepsWhatWasPublished(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForApplied(t, isFalse, "Resizing")
	w.manager.Stop()
	before := testenv.Refresh(t, env, w.scaler).Status.DeepCopy()
	startManagerIn(t, env, w.namespace, &w.meter, new(fault).reads("*v1.PodList"))
	w.waitForUnknown(t, "ObserveFailed", "TargetFound", "Applied", "Ready")
	after := w.scaler.Status
	assert.Equal(t, before.Recommendations, after.Recommendations)
	assert.Equal(t, before.Sizing, after.Sizing)
	assert.Equal(t, before.ObservedGeneration, after.ObservedGeneration)
	testenv.AssertCondition(t, after.Conditions, "RecommendationReady", isTrue, "Recommended")
}

func TestFailedRecommendationIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	var f fault
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record,
		f.requests(http.MethodGet, "/verticalscalercheckpoints"))
	w.waitForUnknown(t, "RecommendFailed", "RecommendationReady", "Applied", "Ready")
	testenv.AssertCondition(t, w.scaler.Status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	assert.Equal(t, "Cannot compute a recommendation (InternalError). The controller retries.",
		testenv.ConditionMessage(w.scaler.Status.Conditions, "RecommendationReady"))
	assert.Empty(t, w.scaler.Status.Recommendations)
	assert.Zero(t, w.resizes())
	f.isOff.Store(true)
	w.waitForApplied(t, isFalse, "Resizing")
}

// TestResizeContinuesAfterOnePodFails shows that the pods before and after a failing one are
// resized, and that the failure is never reported as Sized.
func TestResizeContinuesAfterOnePodFails(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 3, []corev1.Container{newContainer("web", small, nil)})
	var f fault
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record,
		f.requests(http.MethodPatch, w.pods[1].Name+"/resize"))
	w.waitForResources(t, w.pods[0], 0, large, nil)
	w.waitForResources(t, w.pods[2], 0, large, nil)
	w.waitForUnknown(t, "ApplyFailed", "Applied")
	assert.Equal(t, "1 of 3 pods could not be resized (InternalError). The controller retries.",
		testenv.ConditionMessage(w.scaler.Status.Conditions, "Applied"))
	testenv.AssertCondition(t, w.scaler.Status.Conditions, "Ready", isTrue, "Recommended")
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}, w.scaler.Status.Sizing)
	w.waitForEvent(t, "ApplyFailed")
	assert.Equal(t, 1, int(w.manager.Value(t, "upright_refusals_total", "ApplyFailed")))
	f.isOff.Store(true)
	w.waitForResources(t, w.pods[1], 0, large, nil)
}

func TestFailedRolloutIsPublished(t *testing.T) {
	t.Parallel()
	w := newUnresizableWorkload(t, env, 2)
	var f fault
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record, f.requests(http.MethodPatch, "/deployments/web"))
	w.waitForUnknown(t, "ApplyFailed", "Applied")
	assert.Equal(t, "The rollout of the Deployment could not be started (InternalError). The controller retries.",
		testenv.ConditionMessage(w.scaler.Status.Conditions, "Applied"))
	assert.Zero(t, int(w.manager.Value(t, "upright_rollouts_total", "QoSClassFixed")))
	f.isOff.Store(true)
	w.waitForRollout(t, "")
}

// TestRepeatedFailureIsPublishedOnce shows that retries of the same failure do not write the
// status again, although the error differs each time.
func TestRepeatedFailureIsPublishedOnce(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	var attempts atomic.Int64
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record,
		testenv.Fault(func(request *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(request.URL.Path, "/resize") {
				return nil, nil
			}
			return nil, fmt.Errorf("connection %d was reset", attempts.Add(1))
		}))
	w.waitForUnknown(t, "ApplyFailed", "Applied")
	written, tried := w.statusWrites(), attempts.Load()
	require.Eventually(t, func() bool { return attempts.Load() >= tried+4 }, testenv.Timeout, testenv.Poll)
	assert.Equal(t, written, w.statusWrites())
}

// TestFailedStatusWriteIsReturned shows the last step, and that an earlier error is not lost.
func TestFailedStatusWriteIsReturned(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "verticalscalers"}, "web", errors.New("refused"))
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	c := interceptor.NewClient(live, interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return refused
		},
	})
	namespace := env.Namespace(t)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))
	s := newScope(scaler, metav1.Now().Time)
	s.fail(autoscalingv1beta1.ReasonObserveFailed, "Cannot read", errors.New("the cache failed"))
	_, err = (&Reconciler{Client: c, fieldOwner: name}).publish(t.Context(), s)
	require.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, "the cache failed")
}

func TestFirstFailureOfAReconcileCounts(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), metav1.Now().Time)
	s.fail("First", "message", nil)
	assert.False(t, s.hasFailed(), "no error is no failure")
	s.fail("First", "message", errors.New("one"))
	s.fail("Second", "message", errors.New("two"))
	require.True(t, s.hasFailed())
	assert.NotNil(t, s.failedWith("Second", "First"))
	assert.Nil(t, s.failedWith("Second"))
}
