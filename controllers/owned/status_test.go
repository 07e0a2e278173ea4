package owned

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/testenv"
)

// setStatus changes the status of a Deployment, as the Deployment controller does.
func setStatus(t *testing.T, d *appsv1.Deployment, change func(*appsv1.DeploymentStatus)) {
	t.Helper()
	testenv.Refresh(t, env, d)
	change(&d.Status)
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
}

// TestOwnerIsNotReadyUntilNewSpecIsRolledOut reconciles after each step of a rollout.
func TestOwnerIsNotReadyUntilNewSpecIsRolledOut(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		r := kind.reconcilerOf(obj, newDirectClient(t, interceptor.Funcs{}))
		r.mustReconcile(t)
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		testenv.MarkAvailable(t, env, d)
		r.mustReconcile(t)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")

		kind.setSize(t, obj, 3)
		steps := []struct {
			name string
			step func(*appsv1.DeploymentStatus)
		}{
			{"the Deployment controller has not seen the change", nil},
			{"generation observed", func(s *appsv1.DeploymentStatus) {
				s.ObservedGeneration = testenv.Refresh(t, env, d).Generation
				s.Conditions[1].Reason = "ReplicaSetUpdated"
			}},
			{"pod created", func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 3, 3 }},
			{"pod available, condition still False", func(s *appsv1.DeploymentStatus) {
				s.ReadyReplicas, s.AvailableReplicas, s.Conditions[0].Status = 3, 3, corev1.ConditionFalse
			}},
		}
		for _, step := range steps {
			if step.step != nil {
				setStatus(t, d, step.step)
			}
			r.mustReconcile(t)
			status := kind.status(testenv.Refresh(t, env, obj))
			testenv.AssertCondition(t, status.Conditions, "Ready", metav1.ConditionFalse, "RolloutInProgress")
			testenv.AssertCondition(t, status.Conditions, "Available", metav1.ConditionFalse, "RolloutInProgress")
			assert.Equal(t, obj.GetGeneration(), status.ObservedGeneration, step.name)
			assert.Equal(t, int32(3), *testenv.Refresh(t, env, d).Spec.Replicas, step.name)
		}
		setStatus(t, d, func(s *appsv1.DeploymentStatus) { s.Conditions[0].Status = corev1.ConditionTrue })
		r.mustReconcile(t)
		status := kind.status(testenv.Refresh(t, env, obj))
		testenv.AssertCondition(t, status.Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
		assert.Equal(t, int32(3), status.AvailableReplicas)
	})
}

func TestOwnerIsDegradedWhileReplicasAreUnavailable(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas = 1, 1, 1
			s.Conditions[0].Status = corev1.ConditionFalse
		})
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "ReplicasUnavailable")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ReplicasUnavailable")
		testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "RolloutComplete")
		assert.Equal(t, int32(1), status.AvailableReplicas)
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "ReplicasUnavailable")

		setStatus(t, d, func(s *appsv1.DeploymentStatus) { s.ReadyReplicas, s.AvailableReplicas = 0, 0 })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(0), kind.status(testenv.Refresh(c, env, obj)).AvailableReplicas)
		}, testenv.Timeout, testenv.Poll)

		testenv.MarkAvailable(t, env, d)
		status = kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		waitForOneEvent(t, obj, corev1.EventTypeNormal, "Recovered")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "ReplicasUnavailable")
	})
}

func TestOwnerReportsRolloutThatIsStuck(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.ObservedGeneration = d.Generation
			s.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"},
			}
		})
		kind.waitForReady(t, obj, metav1.ConditionFalse, "PodsRefused")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "PodsRefused")

		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
			}
		})
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "ProgressDeadlineExceeded")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ProgressDeadlineExceeded")
		waitForOneEvent(t, obj, corev1.EventTypeWarning, "ProgressDeadlineExceeded")
	})
}

// TestOwnerDoesNotPublishStatusForASpecThatChanged changes the spec just before the status of
// the old spec is written.
func TestOwnerDoesNotPublishStatusForASpecThatChanged(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		beforeStatusWrite := func() {}
		r := kind.reconcilerOf(obj, newDirectClient(t, onStatusApply(func(context.Context) error {
			beforeStatusWrite()
			return nil
		})))
		r.mustReconcile(t)
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		beforeStatusWrite = func() { kind.setSize(t, obj, 3) }
		_, err := r.reconcile()
		require.True(t, apierrors.IsConflict(err), "%v", err)
		testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionFalse, "RolloutInProgress")

		beforeStatusWrite = func() {}
		r.mustReconcile(t)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}
