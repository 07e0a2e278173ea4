package ownedstatus

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	oldrand "math/rand"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// situation is a random observation with a random previous status of the owner.
type situation struct {
	previous examplev1alpha1.DeploymentStatus
	observed Observation
}

// Generate creates a situation. It uses few values so that equal values are common.
func (situation) Generate(source *oldrand.Rand, _ int) reflect.Value {
	r := rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))
	count := func() int32 { return 2 + r.Int32N(8)/7 - r.Int32N(8)/7 } // Mostly 2.
	state := func() corev1.ConditionStatus {
		return []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[r.IntN(4)]
	}
	reason := []string{"NewReplicaSetAvailable", "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"}[r.IntN(4)]
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 2 + r.Int64N(8)/7},
		Spec:       appsv1.DeploymentSpec{Replicas: new(count()), Selector: &metav1.LabelSelector{}},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: count(), UpdatedReplicas: count(), AvailableReplicas: count(),
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: state()},
				{Type: appsv1.DeploymentProgressing, Status: state(), Reason: reason},
			},
		},
	}
	if r.IntN(8) == 0 {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: state()})
	}
	if r.IntN(8) == 0 {
		d.DeletionTimestamp = &metav1.Time{Time: now}
	}
	s := situation{observed: Observation{Generation: generation, Deployment: d, Now: now.Add(time.Duration(r.Int64N(120)) * time.Second)}}
	switch r.IntN(3) {
	case 0:
		s.previous = completed(generation)
	case 1:
		s.previous, _ = Status(s.previous, Observation{Generation: generation, Deployment: rolling(), Now: now})
	}
	return reflect.ValueOf(s)
}

func TestPropertyReadyIsTrueExactlyIfDeploymentIsComplete(t *testing.T) {
	t.Parallel()
	ready, unready := 0, 0
	require.NoError(t, quick.Check(func(s situation) bool {
		d := s.observed.Deployment
		complete := d.DeletionTimestamp.IsZero() &&
			d.Status.ObservedGeneration == d.Generation &&
			d.Status.UpdatedReplicas == *d.Spec.Replicas &&
			d.Status.AvailableReplicas == *d.Spec.Replicas &&
			d.Status.Replicas == *d.Spec.Replicas &&
			conditionStatus(d, appsv1.DeploymentAvailable) == corev1.ConditionTrue &&
			conditionStatus(d, appsv1.DeploymentReplicaFailure) != corev1.ConditionTrue
		if complete {
			ready++
		} else {
			unready++
		}
		status, _ := Status(s.previous, s.observed)
		return complete == meta.IsStatusConditionTrue(status.Conditions, examplev1alpha1.ConditionReady) &&
			complete == meta.IsStatusConditionTrue(status.Conditions, examplev1alpha1.ConditionAvailable)
	}, &quick.Config{MaxCount: 20_000}))
	assert.Greater(t, ready, 100, "too few complete Deployments were tested")
	assert.Greater(t, unready, 100, "too few incomplete Deployments were tested")
}

func TestPropertySameObservationGivesSameStatus(t *testing.T) {
	t.Parallel()
	require.NoError(t, quick.Check(func(s situation) bool {
		once, _ := Status(s.previous, s.observed)
		twice, _ := Status(once, s.observed)
		return assert.ObjectsAreEqual(once, twice)
	}, &quick.Config{MaxCount: 20_000}))
}
