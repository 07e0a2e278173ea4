package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// setStatus changes the status of a Deployment, as the Deployment controller does.
func setStatus(t *testing.T, d *appsv1.Deployment, change func(*appsv1.DeploymentStatus)) {
	t.Helper()
	refresh(t, d)
	change(&d.Status)
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
}

// TestOwnersAreNotReadyForASpecBeforeItsDeploymentIs makes each pass itself, after each step
// of a rollout, so that none of them goes unseen.
func TestOwnersAreNotReadyForASpecBeforeItsDeploymentIs(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := create(t, kind.newObject(namespace, "box"))
		passes := kind.passesOver(obj, likeCached(t, interceptor.Funcs{}))
		_, err := passes.pass()
		require.NoError(t, err)
		d := deployment(t, namespace, "box")
		rollOut(t, d)
		_, err = passes.pass()
		require.NoError(t, err)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")

		kind.resize(t, obj, 3)
		steps := []struct {
			name string
			step func(*appsv1.DeploymentStatus)
		}{
			{"nothing has happened", nil},
			{"generation observed", func(s *appsv1.DeploymentStatus) {
				s.ObservedGeneration = refresh(t, d).Generation
				s.Conditions[1].Reason = "ReplicaSetUpdated"
			}},
			{"pod created", func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 3, 3 }},
			{"pod available, condition not yet", func(s *appsv1.DeploymentStatus) {
				s.ReadyReplicas, s.AvailableReplicas, s.Conditions[0].Status = 3, 3, corev1.ConditionFalse
			}},
		}
		for _, step := range steps {
			if step.step != nil {
				setStatus(t, d, step.step)
			}
			_, err := passes.pass()
			require.NoError(t, err)
			status := kind.status(refresh(t, obj))
			assertCondition(t, status.Conditions, "Ready", metav1.ConditionFalse, "RolloutInProgress")
			assertCondition(t, status.Conditions, "Available", metav1.ConditionFalse, "RolloutInProgress")
			assert.Equal(t, obj.GetGeneration(), status.ObservedGeneration, step.name)
			assert.Equal(t, int32(3), *refresh(t, d).Spec.Replicas, step.name)
		}
		setStatus(t, d, func(s *appsv1.DeploymentStatus) { s.Conditions[0].Status = corev1.ConditionTrue })
		_, err = passes.pass()
		require.NoError(t, err)
		status := kind.status(refresh(t, obj))
		assertCondition(t, status.Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
		assert.Equal(t, int32(3), status.AvailableReplicas)
	})
}

func TestOwnersSayDegradedWhenReplicasAreLostAndRecover(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas = 1, 1, 1
			s.Conditions[0].Status = corev1.ConditionFalse
		})
		status := kind.is(t, obj, metav1.ConditionFalse, "ReplicasUnavailable")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ReplicasUnavailable")
		assertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "RolloutComplete")
		assert.Equal(t, int32(1), status.AvailableReplicas)
		assertToldOnce(t, obj, corev1.EventTypeWarning, "ReplicasUnavailable")

		setStatus(t, d, func(s *appsv1.DeploymentStatus) { s.ReadyReplicas, s.AvailableReplicas = 0, 0 })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(0), kind.status(refresh(c, obj)).AvailableReplicas)
		}, soon, often)

		rollOut(t, d)
		status = kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		assertToldOnce(t, obj, corev1.EventTypeNormal, "Recovered")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "ReplicasUnavailable")
	})
}

func TestOwnersTellOfARolloutThatCannotGoOn(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))
		d := deployment(t, namespace, "box")
		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.ObservedGeneration = d.Generation
			s.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"},
			}
		})
		kind.is(t, obj, metav1.ConditionFalse, "PodsRefused")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "PodsRefused")

		setStatus(t, d, func(s *appsv1.DeploymentStatus) {
			s.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
			}
		})
		status := kind.is(t, obj, metav1.ConditionFalse, "ProgressDeadlineExceeded")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "ProgressDeadlineExceeded")
		assertToldOnce(t, obj, corev1.EventTypeWarning, "ProgressDeadlineExceeded")
	})
}
