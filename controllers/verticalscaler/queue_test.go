package verticalscaler

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// cachedScalers is a cache of scalers.
type cachedScalers []*autoscalingv1beta1.VerticalScaler

func (cachedScalers) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.ErrUnsupported
}

func (c cachedScalers) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, scaler := range c {
		list.(*autoscalingv1beta1.VerticalScalerList).Items = append(list.(*autoscalingv1beta1.VerticalScalerList).Items, *scaler)
	}
	return nil
}

// enter returns the place of a scaler at a time, or 0.
func enter(t *testing.T, q *rolloutQueue, name string, now time.Time) int {
	t.Helper()
	place, requeueAfter, err := q.enter(t.Context(), types.NamespacedName{Namespace: "one", Name: name}, now)
	require.NoError(t, err)
	assert.Equal(t, place > 0, requeueAfter >= queueInterval)
	return place
}

// rollingOut returns a scaler whose rollout has a state.
func rollingOut(name string, state autoscalingv1beta1.RolloutState, requestedAt time.Time) *autoscalingv1beta1.VerticalScaler {
	scaler := testenv.NewScaler("one", name, "web")
	scaler.Status.Rollout = &autoscalingv1beta1.RolloutStatus{State: state, RequestedAt: metav1.NewTime(requestedAt)}
	return scaler
}

// reconciled returns the scope after a reconcile of a scaler.
func reconciled(scaler *autoscalingv1beta1.VerticalScaler, now time.Time) *scope {
	s := newScope(scaler, now)
	s.status, s.deployment = scaler.Status, &appsv1.Deployment{}
	return s
}

func TestRolloutsBeyondTheLimitWaitInOrder(t *testing.T) {
	t.Parallel()
	q := newRolloutQueue(cachedScalers(nil), 2)
	for i, want := range []int{0, 0, 1, 2, 3} {
		assert.Equal(t, want, enter(t, q, strconv.Itoa(i), noon.Add(time.Duration(i)*time.Second)))
	}
	assert.Zero(t, enter(t, q, "1", noon.Add(9*time.Second)), "it is active already")
	assert.Equal(t, 3, enter(t, q, "4", noon.Add(9*time.Second)))
	q.update(reconciled(rollingOut("0", autoscalingv1beta1.RolloutCompleted, noon), noon))
	assert.Equal(t, 2, enter(t, q, "3", noon.Add(10*time.Second)), "the one before comes first")
	assert.Zero(t, enter(t, q, "2", noon.Add(11*time.Second)))
	assert.Equal(t, 3, enter(t, q, "4", noon.Add(12*time.Second)), "the published place stays for a while")
	assert.Equal(t, 2, enter(t, q, "4", noon.Add(20*time.Second)))
}

func TestRolloutThatEndsFreesItsPlace(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "one", Name: "first"}
	started := rollingOut("first", autoscalingv1beta1.RolloutStarted, noon)
	for name, test := range map[string]struct {
		end   func(*rolloutQueue)
		after time.Duration
		want  int
	}{
		"in progress": {func(q *rolloutQueue) { q.update(reconciled(started, noon)) }, time.Minute, 1},
		"deleted":     {func(q *rolloutQueue) { q.forget(key) }, time.Minute, 0},
		"the Deployment is gone": {func(q *rolloutQueue) {
			s := reconciled(started, noon)
			s.deployment = nil // Also of a suspended scaler.
			q.update(s)
		}, time.Minute, 0},
		"withdrawn": {func(q *rolloutQueue) {
			q.update(reconciled(rollingOut("first", autoscalingv1beta1.RolloutWithdrawn, noon), noon))
		}, time.Minute, 0},
		"it hangs": {func(*rolloutQueue) {}, time.Hour, 0},
		"a reconcile that fails": {func(q *rolloutQueue) {
			s := reconciled(testenv.NewScaler("one", "first", "web"), noon)
			s.fail(autoscalingv1beta1.ReasonApplyFailed, "", assert.AnError)
			q.update(s)
		}, time.Minute, 1},
	} {
		q := newRolloutQueue(cachedScalers(nil), 1)
		require.Zero(t, enter(t, q, "first", noon), name)
		require.Equal(t, 1, enter(t, q, "second", noon.Add(time.Second)), name)
		test.end(q)
		assert.Equal(t, test.want, enter(t, q, "second", noon.Add(test.after)), name)
	}
}

func TestScalerThatNeedsNoRolloutLeavesTheQueue(t *testing.T) {
	t.Parallel()
	q := newRolloutQueue(cachedScalers(nil), 1)
	require.Zero(t, enter(t, q, "first", noon))
	require.Equal(t, 1, enter(t, q, "second", noon.Add(time.Second)))
	require.Equal(t, 2, enter(t, q, "third", noon.Add(2*time.Second)))
	s := reconciled(testenv.NewScaler("one", "second", "web"), noon)
	s.result.byReason[autoscalingv1beta1.ReasonRolloutQueued] = 1
	q.update(s)
	assert.Equal(t, 2, enter(t, q, "third", noon.Add(20*time.Second)))
	q.update(reconciled(testenv.NewScaler("one", "second", "web"), noon))
	assert.Equal(t, 1, enter(t, q, "third", noon.Add(40*time.Second)))
}

func TestQueueKnowsTheRolloutsOfThePreviousManager(t *testing.T) {
	t.Parallel()
	suspended := rollingOut("suspended", autoscalingv1beta1.RolloutStarted, noon)
	suspended.Spec.Suspend = true
	q := newRolloutQueue(cachedScalers{suspended,
		rollingOut("active", autoscalingv1beta1.RolloutStarted, noon),
		rollingOut("complete", autoscalingv1beta1.RolloutCompleted, noon),
		rollingOut("old", autoscalingv1beta1.RolloutStarted, noon.Add(-time.Hour)),
		testenv.NewScaler("one", "none", "web"),
	}, 2)
	assert.Zero(t, enter(t, q, "first", noon))
	assert.Equal(t, 1, enter(t, q, "second", noon))
}

func TestQueueKeepsTheLimitForReconcilesAtTheSameTime(t *testing.T) {
	t.Parallel()
	q := newRolloutQueue(cachedScalers(nil), 5)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			_, _, err := q.enter(t.Context(), types.NamespacedName{Namespace: "one", Name: strconv.Itoa(i)}, noon)
			assert.NoError(t, err)
		})
	}
	group.Wait()
	assert.Len(t, q.active, 5)
	assert.Len(t, q.waiting, 45)
}
