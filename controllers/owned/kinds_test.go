package owned

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	"example.com/upright/apis/container"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/testenv"
)

// owner is an object of a kind that owns a Deployment.
type owner interface {
	client.Object
	*examplev1alpha1.Busybox | *cachev1alpha1.Memcached | *examplev1alpha1.Foo
}

// ownerKind is a kind that owns a Deployment. Its functions hide the differences between the
// kinds, so that a test can run for each of them.
type ownerKind struct {
	name string
	// newObject returns an object that needs two pods in the Deployment of the given name.
	newObject     func(namespace, deployment string) client.Object
	size          func(client.Object) **int32
	resources     func(client.Object) *container.Resources
	status        func(client.Object) examplev1alpha1.DeploymentStatus
	desired       func(client.Object) *appsv1ac.DeploymentApplyConfiguration
	newReconciler func(deploymentReconciler) reconcile.Reconciler
	// recordCreation is that of the kind's deploymentReconciler.
	recordCreation bool
}

// newOwnerKind returns the ownerKind of a Go type.
func newOwnerKind[T owner](
	name string,
	newObject func(namespace, deployment string) T,
	fields func(T) (size **int32, resources *container.Resources, status examplev1alpha1.DeploymentStatus),
	desired func(T) *appsv1ac.DeploymentApplyConfiguration,
	newReconciler func(deploymentReconciler) reconcile.Reconciler,
) ownerKind {
	return ownerKind{
		name: name,
		newObject: func(namespace, deployment string) client.Object {
			obj := newObject(namespace, deployment)
			size, _, _ := fields(obj)
			*size = new(int32(2))
			return obj
		},
		size: func(obj client.Object) **int32 {
			size, _, _ := fields(obj.(T))
			return size
		},
		resources: func(obj client.Object) *container.Resources {
			_, resources, _ := fields(obj.(T))
			return resources
		},
		status: func(obj client.Object) examplev1alpha1.DeploymentStatus {
			_, _, status := fields(obj.(T))
			return status
		},
		desired:        func(obj client.Object) *appsv1ac.DeploymentApplyConfiguration { return desired(obj.(T)) },
		newReconciler:  newReconciler,
		recordCreation: name == "Foo",
	}
}

func newBusybox(namespace, name string) *examplev1alpha1.Busybox {
	return &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newMemcached(namespace, name string) *cachev1alpha1.Memcached {
	return &cachev1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// newFoo returns a Foo with another name than its Deployment.
func newFoo(namespace, deployment string) *examplev1alpha1.Foo {
	return &examplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foo-of-" + deployment},
		Spec:       examplev1alpha1.FooSpec{DeploymentName: deployment},
	}
}

var (
	busyboxKind = newOwnerKind("Busybox", newBusybox,
		func(b *examplev1alpha1.Busybox) (**int32, *container.Resources, examplev1alpha1.DeploymentStatus) {
			return &b.Spec.Size, &b.Spec.Resources, b.Status
		},
		busyboxDeployment,
		func(r deploymentReconciler) reconcile.Reconciler { return &BusyboxReconciler{r} })
	memcachedKind = newOwnerKind("Memcached", newMemcached,
		func(m *cachev1alpha1.Memcached) (**int32, *container.Resources, examplev1alpha1.DeploymentStatus) {
			return &m.Spec.Size, &m.Spec.Resources, examplev1alpha1.DeploymentStatus(m.Status)
		},
		memcachedDeployment,
		func(r deploymentReconciler) reconcile.Reconciler { return &MemcachedReconciler{r} })
	fooKind = newOwnerKind("Foo", newFoo,
		func(f *examplev1alpha1.Foo) (**int32, *container.Resources, examplev1alpha1.DeploymentStatus) {
			return &f.Spec.Replicas, &f.Spec.Resources, f.Status
		},
		fooDeployment,
		func(r deploymentReconciler) reconcile.Reconciler { return &FooReconciler{r} })
	ownerKinds = []ownerKind{busyboxKind, memcachedKind, fooKind}
)

// forEachKind runs a test for each kind that owns a Deployment, each in its own namespace.
func forEachKind(t *testing.T, test func(t *testing.T, kind ownerKind, namespace string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind, env.Namespace(t))
		})
	}
}

// setSize changes the number of pods in the object's spec.
func (k ownerKind) setSize(t *testing.T, obj client.Object, size int32) {
	t.Helper()
	testenv.Edit(t, env, obj, func(obj client.Object) { *k.size(obj) = &size })
}

// waitForReady waits until the object's status is about its current generation and its
// conditions Ready and Available have the given status and reason.
func (k ownerKind) waitForReady(
	t *testing.T, obj client.Object, ready metav1.ConditionStatus, reason string,
) examplev1alpha1.DeploymentStatus {
	t.Helper()
	var status examplev1alpha1.DeploymentStatus
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status = k.status(testenv.Refresh(c, env, obj))
		testenv.AssertCondition(c, status.Conditions, "Ready", ready, reason)
		testenv.AssertCondition(c, status.Conditions, "Available", ready, reason)
		assert.Equal(c, obj.GetGeneration(), status.ObservedGeneration)
	}, testenv.Timeout, testenv.Poll)
	return status
}

// createReady creates an object, makes its Deployment available, and waits until the object is
// ready.
func (k ownerKind) createReady(t *testing.T, namespace, deployment string) client.Object {
	t.Helper()
	obj := testenv.Create(t, env, k.newObject(namespace, deployment))
	testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, deployment))
	k.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
	return obj
}

// manualReconciler reconciles one object when the test calls it, without a manager.
type manualReconciler struct {
	reconciler reconcile.Reconciler
	request    reconcile.Request
	recorder   *events.FakeRecorder
}

// reconcilerOf returns a manualReconciler of an object that uses the given client.
func (k ownerKind) reconcilerOf(obj client.Object, c client.Client) *manualReconciler {
	recorder := events.NewFakeRecorder(100)
	return &manualReconciler{
		reconciler: k.newReconciler(deploymentReconciler{
			Client: c, recorder: recorder, fieldOwner: "upright-test", recordCreation: k.recordCreation,
		}),
		request:  reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)},
		recorder: recorder,
	}
}

func (r *manualReconciler) reconcile() (ctrl.Result, error) {
	return r.reconciler.Reconcile(context.Background(), r.request)
}

// mustReconcile reconciles the object and requires that it succeeds.
func (r *manualReconciler) mustReconcile(t *testing.T) {
	t.Helper()
	_, err := r.reconcile()
	require.NoError(t, err)
}

// events returns the events that were recorded since the last call.
func (r *manualReconciler) events() []string {
	var recorded []string
	for len(r.recorder.Events) > 0 {
		recorded = append(recorded, <-r.recorder.Events)
	}
	return recorded
}

// eventsOf returns the events about an object that have the given reason.
func eventsOf(t assert.TestingT, obj client.Object, reason string) []eventsv1.Event {
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

// waitForOneEvent waits until an event with the given reason exists. It asserts the event's type
// and that it was recorded once: no second event, and no series.
func waitForOneEvent(t *testing.T, obj client.Object, eventType, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotEmpty(c, eventsOf(c, obj, reason))
	}, testenv.Timeout, testenv.Poll)
	found := eventsOf(t, obj, reason)
	require.Len(t, found, 1)
	assert.Equal(t, eventType, found[0].Type)
	assert.Nil(t, found[0].Series, "recorded more than once")
}
