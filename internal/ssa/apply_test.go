package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// statusOfSize returns a status that is told by its number of replicas.
func statusOfSize(replicas int32) examplev1alpha1.DeploymentStatus {
	return examplev1alpha1.DeploymentStatus{Replicas: replicas, Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "AsExpected", LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}}}
}

func TestApplyStatusWritesTheWholeStatusAndNothingElse(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := create(t, kind.newObject(namespace, "box"))
		before := obj.DeepCopyObject().(client.Object)
		first := statusOfSize(2)
		first.Selector = "app=box"
		require.NoError(t, applyStatus(t.Context(), env.Client, "upright-test", obj, first))
		assert.Equal(t, first, kind.status(refresh(t, obj)))
		assert.Equal(t, before.GetGeneration(), obj.GetGeneration())
		assert.Equal(t, kind.size(before), kind.size(obj))

		second := statusOfSize(1) // Without a selector: what is not said any more goes away.
		require.NoError(t, applyStatus(t.Context(), env.Client, "upright-test", obj, second))
		assert.Equal(t, second, kind.status(refresh(t, obj)))
	})
}

func TestApplyStatusDoesNotReachAnObjectCreatedAnewUnderTheName(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		former := create(t, kind.newObject(namespace, "box"))
		require.NoError(t, env.Client.Delete(t.Context(), former))
		obj := create(t, kind.newObject(namespace, "box"))
		before := obj.GetResourceVersion()
		err := applyStatus(t.Context(), env.Client, "upright-test", former, statusOfSize(2))
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.Equal(t, before, refresh(t, obj).GetResourceVersion())
	})
}

func TestApplyStatusDoesNotCreateAnObjectThatIsGone(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := create(t, kind.newObject(namespace, "box"))
		require.NoError(t, env.Client.Delete(t.Context(), obj))
		require.Error(t, applyStatus(t.Context(), env.Client, "upright-test", obj, statusOfSize(2)))
		gone(t, obj)
	})
}

// TestOwnersDoNotSayOfANewSpecWhatTheySawOfAnOldOne changes the spec while a pass is about
// to write the status.
func TestOwnersDoNotSayOfANewSpecWhatTheySawOfAnOldOne(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := create(t, kind.newObject(namespace, "box"))
		meddle := func() {}
		passes := kind.passesOver(obj, likeCached(t, onStatus(func(context.Context) error {
			meddle()
			return nil
		})))
		_, err := passes.pass()
		require.NoError(t, err)
		rollOut(t, deployment(t, namespace, "box"))
		meddle = func() { kind.resize(t, obj, 3) }
		_, err = passes.pass()
		require.True(t, apierrors.IsConflict(err), "%v", err)
		assertCondition(t, kind.status(refresh(t, obj)).Conditions, "Ready", metav1.ConditionFalse, "RolloutInProgress")

		meddle = func() {}
		_, err = passes.pass()
		require.NoError(t, err)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}
