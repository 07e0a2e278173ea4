package ownedstatus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInvalidSpecKeepsTheCountsOfTheDeployment(t *testing.T) {
	t.Parallel()
	previous := completed(generation - 1)
	status, requeueAfter := Status(previous, failed(&SpecInvalidError{Problem: "resources: no amount"}))
	assert.Zero(t, requeueAfter)
	assert.EqualValues(t, generation, status.ObservedGeneration)
	assert.Equal(t, previous.Replicas, status.Replicas)
	assert.Equal(t, previous.AvailableReplicas, status.AvailableReplicas)
	assert.Equal(t, previous.Selector, status.Selector)
	for condition, want := range map[string]metav1.ConditionStatus{
		"Ready": metav1.ConditionFalse, "Available": metav1.ConditionFalse, "Progressing": metav1.ConditionFalse, "Degraded": metav1.ConditionTrue,
	} {
		got := meta.FindStatusCondition(status.Conditions, condition)
		assert.Equal(t, want, got.Status, condition)
		assert.Equal(t, "SpecInvalid", got.Reason, condition)
		assert.Contains(t, got.Message, "Correct the spec: resources: no amount", condition)
	}
}
