package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

var fooKind = ownerKinds[2]

// rename asks for the Foo's Deployment under another name.
func rename(t *testing.T, foo client.Object, deployment string) {
	t.Helper()
	edit(t, foo, func(foo client.Object) { foo.(*examplev1alpha1.Foo).Spec.DeploymentName = deployment })
}

func TestFooRemovesTheDeploymentOfItsOldNameOnceTheNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.bringUp(t, namespace, "old")
	old := deployment(t, namespace, "old")
	before := old.DeepCopy()

	rename(t, foo, "new")
	renamed := deployment(t, namespace, "new")
	fooKind.is(t, foo, metav1.ConditionFalse, "RolloutInProgress")
	assert.Equal(t, before, refresh(t, old))

	rollOut(t, renamed)
	fooKind.is(t, foo, metav1.ConditionTrue, "AsExpected")
	gone(t, old)
	assert.True(t, metav1.IsControlledBy(refresh(t, renamed), foo))
}

func TestFooKeepsTheDeploymentOfItsOldNameWhileTheNewNameIsTaken(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.bringUp(t, namespace, "old")
	old := deployment(t, namespace, "old")
	before := old.DeepCopy()
	other := create(t, foreign(namespace, "new"))

	rename(t, foo, "new")
	fooKind.is(t, foo, metav1.ConditionFalse, "DeploymentNameTaken")
	assertToldOnce(t, foo, corev1.EventTypeWarning, "ErrResourceExists")
	assert.Equal(t, before, refresh(t, old))

	require.NoError(t, env.Client.Delete(t.Context(), other))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.True(c, metav1.IsControlledBy(refresh(c, other), foo), "taken as soon as it is free")
	}, soon, often)
	assert.Equal(t, before, refresh(t, old))
	rollOut(t, other)
	gone(t, old)
}

func TestFooRenamedBackBeforeTheNewDeploymentIsAvailableKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.bringUp(t, namespace, "old")
	old := deployment(t, namespace, "old")
	before := old.DeepCopy()
	rename(t, foo, "new")
	renamed := deployment(t, namespace, "new")
	rename(t, foo, "old")
	fooKind.is(t, foo, metav1.ConditionTrue, "AsExpected")
	gone(t, renamed)
	assert.Equal(t, before, refresh(t, old))
}

func TestFooRemovesNoDeploymentButItsOwn(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	neighbour := fooKind.bringUp(t, namespace, "neighbour")
	theirs := deployment(t, namespace, "neighbour")
	alike := create(t, lookalike(t, fooKind, newFoo(namespace, "alike")))
	foo := fooKind.bringUp(t, namespace, "old")
	rename(t, foo, "new")
	rollOut(t, deployment(t, namespace, "new"))
	gone(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"}})
	assert.True(t, metav1.IsControlledBy(refresh(t, theirs), neighbour))
	refresh(t, alike)
}

func TestFooKeepsTheDeploymentOfItsOldNameUntilTheNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	foo := create(t, fooKind.newObject(namespace, "old"))
	passes := fooKind.passesOver(foo, likeCached(t, interceptor.Funcs{}))
	pass := func() {
		t.Helper()
		_, err := passes.pass()
		require.NoError(t, err)
	}
	pass()
	old := deployment(t, namespace, "old")
	rollOut(t, old)
	pass()
	before := refresh(t, old).DeepCopy()

	rename(t, foo, "new")
	pass()
	renamed := deployment(t, namespace, "new")
	for _, step := range []func(*appsv1.DeploymentStatus){
		func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
		func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 2, 2 },
		func(s *appsv1.DeploymentStatus) { s.ReadyReplicas, s.AvailableReplicas = 1, 1 },
	} {
		setStatus(t, renamed, step)
		pass()
		require.Equal(t, before, refresh(t, old))
	}
	rollOut(t, renamed)
	pass()
	gone(t, old)
}

// TestFooTakesTheNameThatAnotherFooGivesUp has two Foos ask for one Deployment.
func TestFooTakesTheNameThatAnotherFooGivesUp(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	first := fooKind.bringUp(t, namespace, "web")
	d := deployment(t, namespace, "web")
	before := d.DeepCopy()
	second := newFoo(namespace, "web")
	second.Name = "second"
	create(t, second)
	status := fooKind.is(t, second, metav1.ConditionFalse, "DeploymentNameTaken")
	assert.Contains(t, status.Conditions[0].Message, `belongs to Foo "foo-of-web"`)
	assert.Equal(t, before, refresh(t, d))

	rename(t, first, "other")
	rollOut(t, deployment(t, namespace, "other"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.True(c, metav1.IsControlledBy(refresh(c, d), second))
	}, soon, often)
	fooKind.is(t, first, metav1.ConditionTrue, "AsExpected")
}

func TestFooTriesAgainToRemoveTheDeploymentOfItsOldName(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	failures := 2
	foo := create(t, fooKind.newObject(namespace, "old"))
	passes := fooKind.passesOver(foo, likeCached(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if failures > 0 {
				failures--
				return errors.New("not now")
			}
			return c.Delete(ctx, obj, opts...)
		},
	}))
	_, err := passes.pass()
	require.NoError(t, err)
	rename(t, foo, "new")
	_, err = passes.pass()
	require.NoError(t, err)
	rollOut(t, deployment(t, namespace, "new"))
	for range 2 {
		_, err = passes.pass()
		require.ErrorContains(t, err, "not now", "returned, so that it is tried again")
		assertCondition(t, fooKind.status(refresh(t, foo)).Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
	}
	old := deployment(t, namespace, "old")
	_, err = passes.pass()
	require.NoError(t, err)
	gone(t, old)
}

func TestFooTellsSyncedOnAChangeAndNotOnEveryPass(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	foo := create(t, fooKind.newObject(namespace, "web"))
	passes := fooKind.passesOver(foo, likeCached(t, interceptor.Funcs{}))
	synced := []string{"Normal Synced Deployment web was brought to what the spec asks."}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"created", func() {}, synced},
		{"nothing new", func() {}, nil},
		{"spec changed", func() { fooKind.resize(t, foo, 3) }, synced},
		{"nothing new either", func() {}, nil},
		{"drifted", func() {
			edit(t, deployment(t, namespace, "web"), func(d *appsv1.Deployment) { *d.Spec.Replicas = 9 })
		}, synced},
		{"rolled out", func() { rollOut(t, deployment(t, namespace, "web")) }, nil},
		{"rolled out still", func() {}, nil},
	} {
		step.do()
		_, err := passes.pass()
		require.NoError(t, err, step.name)
		assert.Equal(t, step.want, passes.events(), step.name)
	}
}
