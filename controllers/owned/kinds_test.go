package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// owner is an object of one of the kinds that own a Deployment.
type owner interface {
	client.Object
	*examplev1alpha1.Busybox | *cachev1alpha1.Memcached | *examplev1alpha1.Foo
}

// ownerKind is one of the kinds that own a Deployment, seen as what they have in common.
type ownerKind struct {
	name string
	// newObject makes an object that asks for two pods in the Deployment of a name.
	newObject func(namespace, deployment string) client.Object
	size      func(client.Object) **int32
	resources func(client.Object) *corev1.ResourceRequirements
	status    func(client.Object) examplev1alpha1.DeploymentStatus
	desired   func(client.Object) *appsv1ac.DeploymentApplyConfiguration
	// reconciler makes the kind's reconciler.
	reconciler func(deploymentOwner) reconcile.Reconciler
	// tellCreated says whether the kind tells of its first Deployment.
	tellCreated bool
}

// ownerKindOf makes an ownerKind out of functions on one Go type.
func ownerKindOf[T owner](
	name string,
	newObject func(namespace, deployment string) T,
	fields func(T) (size **int32, resources *corev1.ResourceRequirements, status examplev1alpha1.DeploymentStatus),
	desired func(T) *appsv1ac.DeploymentApplyConfiguration,
	reconciler func(deploymentOwner) reconcile.Reconciler,
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
		resources: func(obj client.Object) *corev1.ResourceRequirements {
			_, resources, _ := fields(obj.(T))
			return resources
		},
		status: func(obj client.Object) examplev1alpha1.DeploymentStatus {
			_, _, status := fields(obj.(T))
			return status
		},
		desired:     func(obj client.Object) *appsv1ac.DeploymentApplyConfiguration { return desired(obj.(T)) },
		reconciler:  reconciler,
		tellCreated: name == "Foo",
	}
}

func newBusybox(namespace, name string) *examplev1alpha1.Busybox {
	return &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newMemcached(namespace, name string) *cachev1alpha1.Memcached {
	return &cachev1alpha1.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// newFoo returns a Foo whose own name is another than its Deployment's.
func newFoo(namespace, deployment string) *examplev1alpha1.Foo {
	return &examplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foo-of-" + deployment},
		Spec:       examplev1alpha1.FooSpec{DeploymentName: deployment},
	}
}

var ownerKinds = []ownerKind{
	ownerKindOf("Busybox", newBusybox,
		func(b *examplev1alpha1.Busybox) (**int32, *corev1.ResourceRequirements, examplev1alpha1.DeploymentStatus) {
			return &b.Spec.Size, &b.Spec.Resources, b.Status
		},
		busyboxDeployment,
		func(o deploymentOwner) reconcile.Reconciler { return &BusyboxReconciler{o} }),
	ownerKindOf("Memcached", newMemcached,
		func(m *cachev1alpha1.Memcached) (**int32, *corev1.ResourceRequirements, examplev1alpha1.DeploymentStatus) {
			return &m.Spec.Size, &m.Spec.Resources, examplev1alpha1.DeploymentStatus(m.Status)
		},
		memcachedDeployment,
		func(o deploymentOwner) reconcile.Reconciler { return &MemcachedReconciler{o} }),
	ownerKindOf("Foo", newFoo,
		func(f *examplev1alpha1.Foo) (**int32, *corev1.ResourceRequirements, examplev1alpha1.DeploymentStatus) {
			return &f.Spec.Replicas, &f.Spec.Resources, f.Status
		},
		fooDeployment,
		func(o deploymentOwner) reconcile.Reconciler { return &FooReconciler{o} }),
}

// forEachOwner runs a test for each kind that owns a Deployment, each in a namespace of its own.
func forEachOwner(t *testing.T, test func(t *testing.T, kind ownerKind, namespace string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind, env.Namespace(t))
		})
	}
}

// resize asks for another number of pods.
func (k ownerKind) resize(t *testing.T, obj client.Object, size int32) {
	t.Helper()
	edit(t, obj, func(obj client.Object) { *k.size(obj) = &size })
}

// is waits until the object's status, for its current generation, is Ready or not for a reason.
func (k ownerKind) is(t *testing.T, obj client.Object, ready metav1.ConditionStatus, reason string) examplev1alpha1.DeploymentStatus {
	t.Helper()
	var status examplev1alpha1.DeploymentStatus
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status = k.status(refresh(c, obj))
		assertCondition(c, status.Conditions, "Ready", ready, reason)
		assertCondition(c, status.Conditions, "Available", ready, reason)
		assert.Equal(c, obj.GetGeneration(), status.ObservedGeneration)
	}, soon, often)
	return status
}

// bringUp creates an object with its Deployment rolled out, and waits until it is ready.
func (k ownerKind) bringUp(t *testing.T, namespace, name string) client.Object {
	t.Helper()
	obj := create(t, k.newObject(namespace, name))
	rollOut(t, deployment(t, namespace, name))
	k.is(t, obj, metav1.ConditionTrue, "AsExpected")
	return obj
}

// passes are a reconciler's passes over one object, made one by one by the test.
type passes struct {
	reconciler reconcile.Reconciler
	request    reconcile.Request
	recorder   *events.FakeRecorder
}

// passesOver returns the passes over an object through a client.
func (k ownerKind) passesOver(obj client.Object, through client.Client) *passes {
	recorder := events.NewFakeRecorder(100)
	return &passes{
		reconciler: k.reconciler(deploymentOwner{
			Client: through, recorder: recorder, fieldOwner: "upright-test", tellCreated: k.tellCreated,
		}),
		request:  reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)},
		recorder: recorder,
	}
}

// pass makes one pass.
func (p *passes) pass() (ctrl.Result, error) {
	return p.reconciler.Reconcile(context.Background(), p.request)
}

// events returns the events that were recorded since it was asked last.
func (p *passes) events() []string {
	var recorded []string
	for len(p.recorder.Events) > 0 {
		recorded = append(recorded, <-p.recorder.Events)
	}
	return recorded
}

// eventsOf returns the events of a reason that the API server has for an object.
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

// assertToldOnce waits until an event of a reason is there and asserts that it was recorded
// once: not in two events, and not repeated in a series.
func assertToldOnce(t *testing.T, obj client.Object, eventType, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotEmpty(c, eventsOf(c, obj, reason))
	}, soon, often)
	found := eventsOf(t, obj, reason)
	require.Len(t, found, 1)
	assert.Equal(t, eventType, found[0].Type)
	assert.Nil(t, found[0].Series, "repeated")
}
