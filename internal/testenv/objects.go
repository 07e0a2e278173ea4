package testenv

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Timeout is how long tests wait for what must happen.
	Timeout = 10 * time.Second
	// Quiet is how long tests watch for what must not happen.
	Quiet = 500 * time.Millisecond
	// Poll is the time between two checks.
	Poll = 20 * time.Millisecond
)

// Create creates an object and returns it with what the API server has set.
func Create[T client.Object](t testing.TB, env *Environment, obj T) T {
	t.Helper()
	require.NoError(t, env.Client.Create(context.Background(), obj))
	return obj
}

// Refresh reads an object again and returns it.
func Refresh[T client.Object](t assert.TestingT, env *Environment, obj T) T {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	assert.NoError(t, env.Client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// Edit reads an object, changes it and patches the difference.
func Edit[T client.Object](t testing.TB, env *Environment, obj T, change func(T)) {
	t.Helper()
	Refresh(t, env, obj)
	before, ok := obj.DeepCopyObject().(client.Object)
	require.True(t, ok)
	change(obj)
	require.NoError(t, env.Client.Patch(context.Background(), obj, client.MergeFrom(before)))
}

// Delete deletes an object.
func Delete(t testing.TB, env *Environment, obj client.Object) {
	t.Helper()
	require.NoError(t, env.Client.Delete(context.Background(), obj))
}

// WaitUntilDeleted waits until an object does not exist.
func WaitUntilDeleted(t testing.TB, env *Environment, obj client.Object) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj)
		assert.True(c, apierrors.IsNotFound(err), "still exists: %v", err)
	}, Timeout, Poll)
}

// AddFinalizer makes the deletion of an object wait for the returned function.
func AddFinalizer[T client.Object](t testing.TB, env *Environment, obj T) (remove func()) {
	t.Helper()
	set := func(finalizers []string) func() {
		return func() { Edit(t, env, obj, func(obj T) { obj.SetFinalizers(finalizers) }) }
	}
	set([]string{"example.com/wait"})()
	return set(nil)
}

// WaitForNextSecond waits until an object that is created now has a later creation time than obj.
func WaitForNextSecond(t testing.TB, obj client.Object) {
	t.Helper()
	next := obj.GetCreationTimestamp().Add(time.Second)
	require.Eventually(t, func() bool { return !time.Now().Before(next) }, Timeout, Poll)
}

// WaitForDeployment waits until a Deployment exists and returns it.
func WaitForDeployment(t testing.TB, env *Environment, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.EventuallyWithT(t, func(c *assert.CollectT) { Refresh(c, env, d) }, Timeout, Poll)
	return d
}

// MarkAvailable writes the status that the Deployment controller writes when all pods are
// available.
func MarkAvailable(t testing.TB, env *Environment, d *appsv1.Deployment) {
	t.Helper()
	Refresh(t, env, d)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           *d.Spec.Replicas,
		UpdatedReplicas:    *d.Spec.Replicas,
		ReadyReplicas:      *d.Spec.Replicas,
		AvailableReplicas:  *d.Spec.Replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	require.NoError(t, env.Client.Status().Update(context.Background(), d))
}

// AssertCondition asserts the status and reason of a condition.
func AssertCondition(
	t assert.TestingT, conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus, reason string,
) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	condition := meta.FindStatusCondition(conditions, conditionType)
	if assert.NotNil(t, condition, "condition %s", conditionType) {
		assert.Equal(t, status, condition.Status, "status of %s: %s", conditionType, condition.Message)
		assert.Equal(t, reason, condition.Reason, "reason of %s", conditionType)
	}
}

// AssertSameJSON asserts that two values have the same JSON, and so mean the same in the API.
func AssertSameJSON(t require.TestingT, want, got any) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	wantJSON, err := json.Marshal(want)
	require.NoError(t, err)
	gotJSON, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, string(wantJSON), string(gotJSON))
}

// EventReasons returns how often each reason was recorded in an event about an object.
func EventReasons(t assert.TestingT, env *Environment, obj client.Object) map[string]int {
	var all eventsv1.EventList
	assert.NoError(t, env.Client.List(context.Background(), &all, client.InNamespace(obj.GetNamespace())))
	reasons := map[string]int{}
	for _, event := range all.Items {
		if event.Regarding.UID != obj.GetUID() {
			continue
		}
		reasons[event.Reason]++
		if event.Series != nil {
			reasons[event.Reason] += int(event.Series.Count) - 1
		}
	}
	return reasons
}
