package controllers

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/internal/ownedstatus"
)

// onDeployment makes applies of Deployments go through refuse, whose error, where there is
// one, is the answer.
func onDeployment(refuse func(*appsv1ac.DeploymentApplyConfiguration) error) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if d, is := obj.(*appsv1ac.DeploymentApplyConfiguration); is {
				if err := refuse(d); err != nil {
					return err
				}
			}
			return c.Apply(ctx, obj, opts...)
		},
	}
}

// onStatus makes writes of status go through refuse.
func onStatus(refuse func(context.Context) error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceApply: func(
			ctx context.Context, c client.Client, subresource string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
		) error {
			if err := refuse(ctx); err != nil {
				return err
			}
			return c.SubResource(subresource).Apply(ctx, obj, opts...)
		},
	}
}

var errInvalid = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "box",
	field.ErrorList{field.Required(field.NewPath("spec", "template"), "a Deployment has pods")})

// TestOwnersTryAgainWhatAQuotaRefuses has the API server itself refuse the Deployment.
func TestOwnersTryAgainWhatAQuotaRefuses(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		none := corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}
		quota := create(t, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: none},
		})
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		require.NoError(t, env.Client.Status().Update(t.Context(), quota))
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))

		status := kind.is(t, obj, metav1.ConditionFalse, "ApplyFailed")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ApplyFailed")
		assertCondition(t, status.Conditions, "Progressing", metav1.ConditionTrue, "ApplyFailed")
		assert.Contains(t, status.Conditions[0].Message, "exceeded quota: none")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "ApplyFailed")

		require.NoError(t, env.Client.Delete(t.Context(), quota))
		rollOut(t, deployment(t, namespace, "box"))
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assertToldOnce(t, obj, corev1.EventTypeNormal, "Recovered")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "ApplyFailed")
	})
}

// TestOwnersKeepTrueCountsWhileAnApplyFails shows that what is known of the Deployment is
// said also when it cannot be brought up to date.
func TestOwnersKeepTrueCountsWhileAnApplyFails(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		var failing atomic.Bool
		startManager(t, namespace, intercept(onDeployment(func(*appsv1ac.DeploymentApplyConfiguration) error {
			if failing.Load() {
				return errors.New("not now")
			}
			return nil
		})))
		obj := kind.bringUp(t, namespace, "box")
		before := kind.status(refresh(t, obj))
		failing.Store(true)
		kind.resize(t, obj, 3)
		status := kind.is(t, obj, metav1.ConditionFalse, "ApplyFailed")
		assert.Equal(t, int32(2), status.Replicas)
		assert.Equal(t, int32(2), status.AvailableReplicas)
		assert.Equal(t, before.Selector, status.Selector, "an autoscaler needs it")
		failing.Store(false)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(3), *refresh(c, deployment(t, namespace, "box")).Spec.Replicas)
		}, soon, often)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}

func TestOwnersDoNotTryAgainADeploymentThatIsInvalidUntilTheSpecChanges(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		var tries atomic.Int32
		startManager(t, namespace, intercept(onDeployment(func(d *appsv1ac.DeploymentApplyConfiguration) error {
			if *d.Spec.Replicas == 2 {
				tries.Add(1)
				return errInvalid
			}
			return nil
		})))
		obj := create(t, kind.newObject(namespace, "box"))
		status := kind.is(t, obj, metav1.ConditionFalse, "DeploymentRefused")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "DeploymentRefused")
		assertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "DeploymentRefused")
		assert.Contains(t, status.Conditions[0].Message, "change the spec")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "DeploymentRefused")
		// The object's creation and the write of its status are two events that may each mean a pass.
		assert.Never(t, func() bool { return tries.Load() > 2 }, aWhile, often)

		kind.resize(t, obj, 3)
		rollOut(t, deployment(t, namespace, "box"))
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

func TestOwnersMakeUpForAStatusThatCouldNotBeWritten(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		var failures atomic.Int32
		startManager(t, namespace, intercept(onStatus(func(context.Context) error {
			if failures.Add(1) <= 3 {
				return errors.New("status: not now")
			}
			return nil
		})))
		obj := create(t, kind.newObject(namespace, "box"))
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		assert.GreaterOrEqual(t, failures.Load(), int32(4))
		failures.Store(0)
		rollOut(t, deployment(t, namespace, "box"))
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assert.GreaterOrEqual(t, failures.Load(), int32(4))
	})
}

func TestAFailedStatusWriteDoesNotHideThePassesOwnError(t *testing.T) {
	statusErr := errors.New("status: not now")
	for name, own := range map[string]error{
		"transient":     errors.New("deployment: not now"),
		"terminal":      errInvalid,
		"name is taken": &ownedstatus.NameTakenError{Deployment: "box"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
				obj := create(t, kind.newObject(namespace, "box"))
				funcs := onDeployment(func(*appsv1ac.DeploymentApplyConfiguration) error { return own })
				failing := true
				funcs.SubResourceApply = onStatus(func(context.Context) error {
					if failing {
						return statusErr
					}
					return nil
				}).SubResourceApply
				passes := kind.passesOver(obj, likeCached(t, funcs))
				_, err := passes.pass()
				require.ErrorIs(t, err, statusErr)
				require.ErrorIs(t, err, own)
				require.NotErrorIs(t, err, reconcile.TerminalError(nil), "the status must be tried again")
				assert.Empty(t, passes.events(), "what the status does not say yet")

				failing = false
				_, err = passes.pass()
				require.NotErrorIs(t, err, statusErr)
				status := kind.status(refresh(t, obj))
				assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, status.Conditions[0].Reason)
				assert.Len(t, passes.events(), 1)
			})
		})
	}
}

func TestRetryableTriesAgainOnlyWhatTimeMayHeal(t *testing.T) {
	t.Parallel()
	transient := errors.New("not now")
	require.NoError(t, retryable(nil))
	require.NoError(t, retryable(&ownedstatus.NameTakenError{Deployment: "box"}), "the watch tells when it is free")
	require.ErrorIs(t, retryable(errInvalid), reconcile.TerminalError(nil))
	require.ErrorIs(t, retryable(errInvalid), errInvalid)
	require.Equal(t, transient, retryable(transient))
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "box", transient)
	require.NotErrorIs(t, retryable(forbidden), reconcile.TerminalError(nil), "a quota or a role may change")
}

func TestOwnersRecoverFromALostConnection(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		link := newConnection()
		startManager(t, namespace, link.use)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		before := d.UID
		link.cut()
		require.NoError(t, env.Client.Delete(t.Context(), d))
		kind.resize(t, obj, 3)
		added := create(t, kind.newObject(namespace, "added"))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Positive(c, link.refusals(), "the watches were not cut")
		}, soon, often)
		link.restore()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			refresh(c, d)
			assert.NotEqual(c, before, d.UID)
			assert.Equal(c, int32(3), *d.Spec.Replicas)
		}, 2*soon, often)
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		rollOut(t, deployment(t, namespace, "added"))
		kind.is(t, added, metav1.ConditionTrue, "AsExpected")
	})
}

// TestTheNextManagerFinishesWhatOneLeftThatEndedBetweenItsTwoWrites stops a manager that has
// written the Deployment and waits to write the status.
func TestTheNextManagerFinishesWhatOneLeftThatEndedBetweenItsTwoWrites(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		atStatus := make(chan struct{}, 100)
		m := startManager(t, namespace, intercept(onStatus(func(ctx context.Context) error {
			atStatus <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})))
		obj := create(t, kind.newObject(namespace, "box"))
		<-atStatus
		m.stop()
		d := deployment(t, namespace, "box")
		assertCondition(t, kind.status(refresh(t, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")

		var wrote writes
		startManager(t, namespace, wrote.record)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		before := d.DeepCopy()
		assert.Equal(t, before, refresh(t, d))
		assert.Empty(t, wrote.to("/deployments/"), "the Deployment is as it should be")
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assert.Len(t, wrote.all(), 2, "%v", wrote.all())
	})
}

func TestOwnersRepairADeploymentAlsoWhenItsStatusIsLost(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) { *s = appsv1.DeploymentStatus{} })
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}
