package ssa_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/ssa"
	"example.com/upright/internal/testenv"
)

// forEachKind runs a test for each kind that has a DeploymentStatus, each with a new object.
func forEachKind(t *testing.T, test func(t *testing.T, obj client.Object)) {
	t.Helper()
	t.Parallel()
	for name, newObject := range map[string]func(metav1.ObjectMeta) client.Object{
		"Busybox":   func(m metav1.ObjectMeta) client.Object { return &examplev1alpha1.Busybox{ObjectMeta: m} },
		"Memcached": func(m metav1.ObjectMeta) client.Object { return &cachev1alpha1.Memcached{ObjectMeta: m} },
		"Foo": func(m metav1.ObjectMeta) client.Object {
			return &examplev1alpha1.Foo{ObjectMeta: m, Spec: examplev1alpha1.FooSpec{DeploymentName: "web"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newObject(metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "web"}))
		})
	}
}

// newStatus returns a status with a number of replicas.
func newStatus(replicas int32) examplev1alpha1.DeploymentStatus {
	return examplev1alpha1.DeploymentStatus{Replicas: replicas, Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "AsExpected", LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}}}
}

// fieldOf returns a top-level field of an object.
func fieldOf(t *testing.T, obj client.Object, name string) any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(t, err)
	require.Contains(t, fields, name)
	return fields[name]
}

func TestApplyStatusReplacesTheWholeStatusAndNothingElse(t *testing.T) {
	forEachKind(t, func(t *testing.T, obj client.Object) {
		testenv.Create(t, env, obj)
		generation, spec := obj.GetGeneration(), fieldOf(t, obj, "spec")
		first := newStatus(2)
		first.Selector = "app=web"
		require.NoError(t, ssa.ApplyStatus(t.Context(), env.Client, "upright-test", obj, first))
		testenv.AssertSameJSON(t, first, fieldOf(t, testenv.Refresh(t, env, obj), "status"))
		assert.Equal(t, generation, obj.GetGeneration())
		assert.Equal(t, spec, fieldOf(t, obj, "spec"))

		second := newStatus(1) // It has no selector, so the apply removes the selector.
		require.NoError(t, ssa.ApplyStatus(t.Context(), env.Client, "upright-test", obj, second))
		testenv.AssertSameJSON(t, second, fieldOf(t, testenv.Refresh(t, env, obj), "status"))
	})
}

func TestApplyStatusReturnsAConflictForARecreatedObject(t *testing.T) {
	forEachKind(t, func(t *testing.T, obj client.Object) {
		recreated, ok := obj.DeepCopyObject().(client.Object)
		require.True(t, ok)
		testenv.Create(t, env, obj)
		testenv.Delete(t, env, obj)
		testenv.Create(t, env, recreated)
		before := recreated.GetResourceVersion()
		err := ssa.ApplyStatus(t.Context(), env.Client, "upright-test", obj, newStatus(2))
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.Equal(t, before, testenv.Refresh(t, env, recreated).GetResourceVersion())
	})
}

func TestApplyStatusDoesNotCreateADeletedObject(t *testing.T) {
	forEachKind(t, func(t *testing.T, obj client.Object) {
		testenv.Create(t, env, obj)
		testenv.Delete(t, env, obj)
		require.Error(t, ssa.ApplyStatus(t.Context(), env.Client, "upright-test", obj, newStatus(2)))
		testenv.WaitUntilDeleted(t, env, obj)
	})
}
