package testenv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// WaitForReady waits until a scaler's condition Ready has a status and a reason for its current
// generation, and returns the scaler's status.
func WaitForReady(
	t testing.TB, env *Environment, scaler *autoscalingv1beta1.VerticalScaler, status metav1.ConditionStatus, reason string,
) autoscalingv1beta1.VerticalScalerStatus {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		observed := Refresh(c, env, scaler).Status
		AssertCondition(c, observed.Conditions, autoscalingv1beta1.ConditionReady, status, reason)
		assert.Equal(c, scaler.Generation, observed.ObservedGeneration)
	}, Timeout, Poll)
	for _, condition := range scaler.Status.Conditions {
		assert.Equal(t, scaler.Generation, condition.ObservedGeneration, condition.Type)
	}
	return scaler.Status
}

// ConditionMessage returns the message of a condition, or "" if it does not exist.
func ConditionMessage(conditions []metav1.Condition, conditionType string) string {
	if found := meta.FindStatusCondition(conditions, conditionType); found != nil {
		return found.Message
	}
	return ""
}

// Events returns the events about an object with a reason.
func Events(t assert.TestingT, env *Environment, obj client.Object, reason string) []eventsv1.Event {
	var all eventsv1.EventList
	assert.NoError(t, env.Client.List(context.Background(), &all, client.InNamespace(obj.GetNamespace())))
	var found []eventsv1.Event
	for _, event := range all.Items {
		if event.Regarding.UID == obj.GetUID() && event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}
