package owned

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/internal/ownedstatus"
	"example.com/upright/internal/testenv"
)

var errInvalid = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web",
	field.ErrorList{field.Required(field.NewPath("spec", "template"), "a Deployment has pods")})

// TestOwnerRetriesDeploymentThatQuotaRejects uses a ResourceQuota, which the API server enforces.
func TestOwnerRetriesDeploymentThatQuotaRejects(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		none := corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}
		quota := testenv.Create(t, env, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: none},
		})
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		require.NoError(t, env.Client.Status().Update(t.Context(), quota))
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))

		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "ApplyFailed")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ApplyFailed")
		testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionTrue, "ApplyFailed")
		assert.Contains(t, status.Conditions[0].Message, "exceeded quota: none")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "ApplyFailed")

		testenv.Delete(t, env, quota)
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		waitForOneEvent(t, obj, corev1.EventTypeNormal, "Recovered")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "ApplyFailed")
	})
}

func TestOwnerPublishesReplicaCountsWhenApplyFails(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		var isFailing atomic.Bool
		startManager(t, namespace, testenv.Intercept(onDeploymentApply(func(*appsv1ac.DeploymentApplyConfiguration) error {
			if isFailing.Load() {
				return errors.New("not now")
			}
			return nil
		})))
		obj := kind.createReady(t, namespace, "web")
		before := kind.status(testenv.Refresh(t, env, obj))
		isFailing.Store(true)
		kind.setSize(t, obj, 3)
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "ApplyFailed")
		assert.Equal(t, int32(2), status.Replicas)
		assert.Equal(t, int32(2), status.AvailableReplicas)
		assert.Equal(t, before.Selector, status.Selector, "an autoscaler needs the selector")
		isFailing.Store(false)
		waitForReplicas(t, testenv.WaitForDeployment(t, env, namespace, "web"), 3)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}

// waitForReplicas waits until a Deployment has the given number of replicas in its spec.
func waitForReplicas(t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, replicas, *testenv.Refresh(c, env, d).Spec.Replicas)
	}, testenv.Timeout, testenv.Poll)
}

func TestOwnerRetriesInvalidDeploymentOnlyAfterSpecChanges(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		var applies atomic.Int32
		startManager(t, namespace, testenv.Intercept(onDeploymentApply(func(d *appsv1ac.DeploymentApplyConfiguration) error {
			if *d.Spec.Replicas == 2 {
				applies.Add(1)
				return errInvalid
			}
			return nil
		})))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentRefused")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "DeploymentRefused")
		testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "DeploymentRefused")
		assert.Contains(t, status.Conditions[0].Message, "Change the spec")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "DeploymentRefused")
		// The creation of the object and the write of its status can each trigger a reconcile.
		assert.Never(t, func() bool { return applies.Load() > 2 }, testenv.Quiet, testenv.Poll)

		kind.setSize(t, obj, 3)
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

func TestOwnerRetriesFailedStatusWrite(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		var writes atomic.Int32
		startManager(t, namespace, testenv.Intercept(onStatusApply(func(context.Context) error {
			if writes.Add(1) <= 3 {
				return errors.New("status: not now")
			}
			return nil
		})))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		assert.GreaterOrEqual(t, writes.Load(), int32(4))
		writes.Store(0)
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		assert.GreaterOrEqual(t, writes.Load(), int32(4))
	})
}

func TestFailedStatusWriteDoesNotHideReconcileError(t *testing.T) {
	statusErr := errors.New("status: not now")
	for name, applyErr := range map[string]error{
		"transient":     errors.New("deployment: not now"),
		"terminal":      errInvalid,
		"name is taken": &ownedstatus.NameTakenError{Deployment: "web"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
				obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
				isFailing := true
				funcs := onStatusApply(func(context.Context) error {
					if isFailing {
						return statusErr
					}
					return nil
				})
				funcs.Apply = onDeploymentApply(func(*appsv1ac.DeploymentApplyConfiguration) error { return applyErr }).Apply
				r := kind.reconcilerOf(obj, newDirectClient(t, funcs))
				_, err := r.reconcile()
				require.ErrorIs(t, err, statusErr)
				require.ErrorIs(t, err, applyErr)
				require.NotErrorIs(t, err, reconcile.TerminalError(nil), "the status write must be retried")
				assert.Empty(t, r.events(), "no event before the status is published")

				isFailing = false
				_, err = r.reconcile()
				require.NotErrorIs(t, err, statusErr)
				status := kind.status(testenv.Refresh(t, env, obj))
				testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, status.Conditions[0].Reason)
				assert.Len(t, r.events(), 1)
			})
		})
	}
}

func TestOnlyTransientErrorsAreRetried(t *testing.T) {
	t.Parallel()
	transient := errors.New("not now")
	require.NoError(t, retryable(nil))
	require.NoError(t, retryable(&ownedstatus.NameTakenError{Deployment: "web"}), "the watch delivers when the name is free")
	require.ErrorIs(t, retryable(errInvalid), reconcile.TerminalError(nil))
	require.ErrorIs(t, retryable(errInvalid), errInvalid)
	require.Equal(t, transient, retryable(transient))
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "web", transient)
	require.NotErrorIs(t, retryable(forbidden), reconcile.TerminalError(nil), "a quota or a role can change")
}

func TestOwnerRecoversFromLostConnection(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		connection := testenv.NewConnection()
		startManager(t, namespace, connection.Use)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		before := d.UID
		connection.Cut()
		testenv.Delete(t, env, d)
		kind.setSize(t, obj, 3)
		added := testenv.Create(t, env, kind.newObject(namespace, "added"))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Positive(c, connection.Refused(), "the watches are not cut")
		}, testenv.Timeout, testenv.Poll)
		connection.Restore()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			testenv.Refresh(c, env, d)
			assert.NotEqual(c, before, d.UID)
			assert.Equal(c, int32(3), *d.Spec.Replicas)
		}, 2*testenv.Timeout, testenv.Poll)
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "added"))
		kind.waitForReady(t, added, metav1.ConditionTrue, "AsExpected")
	})
}

// TestNextManagerWritesTheStatusThatThePreviousOneDidNot stops a manager between its two writes:
// it has written the Deployment and waits to write the status.
func TestNextManagerWritesTheStatusThatThePreviousOneDidNot(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		atStatus := make(chan struct{}, 100)
		m := startManager(t, namespace, testenv.Intercept(onStatusApply(func(ctx context.Context) error {
			atStatus <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})))
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		<-atStatus
		m.Stop()
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")

		var writes testenv.Writes
		startManager(t, namespace, writes.Record)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		before := d.DeepCopy()
		assert.Equal(t, before, testenv.Refresh(t, env, d))
		assert.Empty(t, writes.To("/deployments/"), "the Deployment has its desired state")
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		assert.Len(t, writes.All(), 2, "%v", writes.All())
	})
}

func TestOwnerIsNotReadyWhileDeploymentStatusIsEmpty(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) { *s = appsv1.DeploymentStatus{} })
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}
