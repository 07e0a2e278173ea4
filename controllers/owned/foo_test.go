package owned

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
	"example.com/upright/internal/testenv"
)

// setDeploymentName changes the Deployment's name in the spec of a Foo.
func setDeploymentName(t *testing.T, foo client.Object, name string) {
	t.Helper()
	testenv.Edit(t, env, foo, func(foo client.Object) { foo.(*examplev1alpha1.Foo).Spec.DeploymentName = name })
}

func TestFooDeletesPreviousDeploymentWhenNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.createReady(t, namespace, "previous")
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	before := previous.DeepCopy()

	setDeploymentName(t, foo, "new")
	renamed := testenv.WaitForDeployment(t, env, namespace, "new")
	fooKind.waitForReady(t, foo, metav1.ConditionFalse, "RolloutInProgress")
	assert.Equal(t, before, testenv.Refresh(t, env, previous))

	testenv.MarkAvailable(t, env, renamed)
	fooKind.waitForReady(t, foo, metav1.ConditionTrue, "AsExpected")
	testenv.WaitUntilDeleted(t, env, previous)
	assert.True(t, metav1.IsControlledBy(testenv.Refresh(t, env, renamed), foo))
}

func TestFooKeepsPreviousDeploymentWhileNewNameIsTaken(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.createReady(t, namespace, "previous")
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	before := previous.DeepCopy()
	foreign := testenv.Create(t, env, testenv.NewDeployment(namespace, "new"))

	setDeploymentName(t, foo, "new")
	fooKind.waitForReady(t, foo, metav1.ConditionFalse, "DeploymentNameTaken")
	waitForOneEvent(t, foo, corev1.EventTypeWarning, "ErrResourceExists")
	assert.Equal(t, before, testenv.Refresh(t, env, previous))

	testenv.Delete(t, env, foreign)
	renamed := foreign
	waitForController(t, renamed, foo)
	assert.Equal(t, before, testenv.Refresh(t, env, previous))
	testenv.MarkAvailable(t, env, renamed)
	testenv.WaitUntilDeleted(t, env, previous)
}

func TestFooKeepsPreviousDeploymentThatItIsRenamedBackTo(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	foo := fooKind.createReady(t, namespace, "previous")
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	before := previous.DeepCopy()
	setDeploymentName(t, foo, "new")
	renamed := testenv.WaitForDeployment(t, env, namespace, "new")
	setDeploymentName(t, foo, "previous")
	fooKind.waitForReady(t, foo, metav1.ConditionTrue, "AsExpected")
	testenv.WaitUntilDeleted(t, env, renamed)
	assert.Equal(t, before, testenv.Refresh(t, env, previous))
}

func TestFooDeletesOnlyItsOwnDeployments(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	otherFoo := fooKind.createReady(t, namespace, "other")
	others := testenv.WaitForDeployment(t, env, namespace, "other")
	uncontrolled := testenv.Create(t, env, withoutController(t, fooKind, newFoo(namespace, "uncontrolled")))
	foo := fooKind.createReady(t, namespace, "previous")
	setDeploymentName(t, foo, "new")
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "new"))
	testenv.WaitUntilDeleted(t, env, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "previous"}})
	assert.True(t, metav1.IsControlledBy(testenv.Refresh(t, env, others), otherFoo))
	testenv.Refresh(t, env, uncontrolled) // It still exists.
}

// TestFooKeepsPreviousDeploymentUntilNewOneIsAvailable reconciles after each step of the rollout.
func TestFooKeepsPreviousDeploymentUntilNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	foo := testenv.Create(t, env, fooKind.newObject(namespace, "previous"))
	r := fooKind.reconcilerOf(foo, newDirectClient(t, interceptor.Funcs{}))
	r.mustReconcile(t)
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	testenv.MarkAvailable(t, env, previous)
	r.mustReconcile(t)
	before := testenv.Refresh(t, env, previous).DeepCopy()

	setDeploymentName(t, foo, "new")
	r.mustReconcile(t)
	renamed := testenv.WaitForDeployment(t, env, namespace, "new")
	for _, step := range []func(*appsv1.DeploymentStatus){
		func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
		func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 2, 2 },
		func(s *appsv1.DeploymentStatus) { s.ReadyReplicas, s.AvailableReplicas = 1, 1 },
	} {
		setStatus(t, renamed, step)
		r.mustReconcile(t)
		require.Equal(t, before, testenv.Refresh(t, env, previous))
	}
	testenv.MarkAvailable(t, env, renamed)
	r.mustReconcile(t)
	testenv.WaitUntilDeleted(t, env, previous)
}

func TestFooTakesNameThatAnotherFooGivesUp(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	first := fooKind.createReady(t, namespace, "web")
	d := testenv.WaitForDeployment(t, env, namespace, "web")
	before := d.DeepCopy()
	second := newFoo(namespace, "web")
	second.Name = "second"
	testenv.Create(t, env, second)
	status := fooKind.waitForReady(t, second, metav1.ConditionFalse, "DeploymentNameTaken")
	assert.Contains(t, status.Conditions[0].Message, `belongs to Foo "foo-of-web"`)
	assert.Equal(t, before, testenv.Refresh(t, env, d))

	setDeploymentName(t, first, "other")
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "other"))
	waitForController(t, d, second)
	fooKind.waitForReady(t, first, metav1.ConditionTrue, "AsExpected")
}

func TestFooRetriesDeletionOfPreviousDeployment(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	failures := 2
	foo := testenv.Create(t, env, fooKind.newObject(namespace, "previous"))
	r := fooKind.reconcilerOf(foo, newDirectClient(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if failures > 0 {
				failures--
				return errors.New("not now")
			}
			return c.Delete(ctx, obj, opts...)
		},
	}))
	r.mustReconcile(t)
	setDeploymentName(t, foo, "new")
	r.mustReconcile(t)
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "new"))
	for range 2 {
		_, err := r.reconcile()
		require.ErrorContains(t, err, "not now", "a returned error is retried")
		testenv.AssertCondition(t, fooKind.status(testenv.Refresh(t, env, foo)).Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
	}
	previous := testenv.WaitForDeployment(t, env, namespace, "previous")
	r.mustReconcile(t)
	testenv.WaitUntilDeleted(t, env, previous)
}

func TestFooRecordsSyncedOnlyWhenItChangesItsDeployment(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	foo := testenv.Create(t, env, fooKind.newObject(namespace, "web"))
	r := fooKind.reconcilerOf(foo, newDirectClient(t, interceptor.Funcs{}))
	synced := []string{"Normal Synced Applied Deployment web."}
	noChange := func() {}
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"creation", noChange, synced},
		{"no change after the creation", noChange, nil},
		{"change of the spec", func() { fooKind.setSize(t, foo, 3) }, synced},
		{"no change after that of the spec", noChange, nil},
		{"change of the Deployment", func() {
			testenv.Edit(t, env, testenv.WaitForDeployment(t, env, namespace, "web"), func(d *appsv1.Deployment) { *d.Spec.Replicas = 9 })
		}, synced},
		{"available Deployment", func() {
			testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		}, nil},
		{"no change after that", noChange, nil},
	} {
		step.change()
		_, err := r.reconcile()
		require.NoError(t, err, step.name)
		assert.Equal(t, step.want, r.events(), step.name)
	}
}
