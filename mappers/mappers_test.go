package mappers

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/apis"
	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/indexers"
)

// indexedReader returns a reader of the objects that has the manager's indexes.
func indexedReader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	builder := &indexingBuilder{fake.NewClientBuilder().WithScheme(apis.NewScheme()).WithObjects(objects...)}
	require.NoError(t, indexers.AddAll(t.Context(), builder))
	return builder.Build()
}

// indexingBuilder is a field indexer that adds the indexes to a fake client.
type indexingBuilder struct{ *fake.ClientBuilder }

func (b *indexingBuilder) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	b.WithIndex(obj, field, extract)
	return nil
}

// newMappers returns mappers whose failures no test reads.
func newMappers(t *testing.T, reader client.Reader) *Mappers {
	t.Helper()
	return New(reader, newFailures(t))
}

func newFailures(t *testing.T) *prometheus.CounterVec {
	t.Helper()
	failures, err := NewFailures(prometheus.NewRegistry())
	require.NoError(t, err)
	return failures
}

// newQueue returns a controller's queue. It shuts down when the test ends.
func newQueue(t *testing.T) Queue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// drain empties the queue and returns its requests as namespace/name.
func drain(q Queue) []string {
	var names []string
	for q.Len() > 0 {
		request, _ := q.Get()
		q.Done(request)
		names = append(names, request.String())
	}
	return names
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newDeployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(namespace, name)}
}

func newFoo(namespace, name, deployment string) *examplev1alpha1.Foo {
	return &examplev1alpha1.Foo{
		ObjectMeta: named(namespace, name), Spec: examplev1alpha1.FooSpec{DeploymentName: deployment},
	}
}

func newScaler(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: named(namespace, name), Spec: autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployment},
	}
}

// population returns objects of all kinds that mappers look up.
func population() []client.Object {
	return []client.Object{
		&examplev1alpha1.Busybox{ObjectMeta: named("one", "web")},
		&examplev1alpha1.Busybox{ObjectMeta: named("one", "other")},
		&examplev1alpha1.Busybox{ObjectMeta: named("two", "web")},
		&cachev1alpha1.Memcached{ObjectMeta: named("one", "web")},
		&cachev1alpha1.Memcached{ObjectMeta: named("one", "other")},
		&cachev1alpha1.Memcached{ObjectMeta: named("two", "web")},
		newFoo("one", "foo-a", "web"),
		newFoo("one", "foo-b", "web"),
		newFoo("one", "web", "other"),
		newFoo("two", "foo-c", "web"),
		newScaler("one", "scaler-a", "web"),
		newScaler("one", "scaler-b", "web"),
		newScaler("one", "web", "other"),
		newScaler("two", "scaler-c", "web"),
	}
}

func TestDeploymentMapsToObjectsThatReferToIt(t *testing.T) {
	t.Parallel()
	mappers := newMappers(t, indexedReader(t, population()...))
	for name, test := range map[string]struct {
		mapper   handler.EventHandler
		one, two []string
	}{
		"Busyboxes":       {mappers.DeploymentToBusyboxes(), []string{"one/web"}, []string{"two/web"}},
		"Memcacheds":      {mappers.DeploymentToMemcacheds(), []string{"one/web"}, []string{"two/web"}},
		"Foos":            {mappers.DeploymentToFoos(), []string{"one/foo-a", "one/foo-b"}, []string{"two/foo-c"}},
		"VerticalScalers": {mappers.DeploymentToVerticalScalers(), []string{"one/scaler-a", "one/scaler-b"}, []string{"two/scaler-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			for deployment, want := range map[*appsv1.Deployment][]string{
				newDeployment("one", "web"):    test.one,
				newDeployment("two", "web"):    test.two,
				newDeployment("one", "unused"): nil,
				newDeployment("three", "web"):  nil,
			} {
				test.mapper.Create(t.Context(), event.CreateEvent{Object: deployment}, q)
				assert.ElementsMatch(t, want, drain(q), "%s/%s", deployment.Namespace, deployment.Name)
			}
		})
	}
}

func TestEveryEventTypeIsMapped(t *testing.T) {
	t.Parallel()
	reader := indexedReader(t, population()...)
	mapper, q := newMappers(t, reader).DeploymentToVerticalScalers(), newQueue(t)
	deployment := newDeployment("two", "web")
	for name, send := range map[string]func(){
		"create": func() { mapper.Create(t.Context(), event.CreateEvent{Object: deployment}, q) },
		"update": func() {
			mapper.Update(t.Context(), event.UpdateEvent{ObjectOld: deployment, ObjectNew: deployment}, q)
		},
		"delete":  func() { mapper.Delete(t.Context(), event.DeleteEvent{Object: deployment}, q) },
		"generic": func() { mapper.Generic(t.Context(), event.GenericEvent{Object: deployment}, q) },
	} {
		send()
		assert.Equal(t, []string{"two/scaler-c"}, drain(q), name)
	}
}

func TestDeploymentMetadataMapsLikeDeployment(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).DeploymentToVerticalScalers(), newQueue(t)
	mapper.Create(t.Context(), event.CreateEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: named("two", "web")}}, q)
	assert.Equal(t, []string{"two/scaler-c"}, drain(q))
}

func TestScalerMapsToScalersWithSameTarget(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).VerticalScalerToSiblings(), newQueue(t)
	mapper.Delete(t.Context(), event.DeleteEvent{Object: newScaler("one", "deleted", "web")}, q)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b"}, drain(q))
	mapper.Delete(t.Context(), event.DeleteEvent{Object: newScaler("one", "deleted", "unused")}, q)
	assert.Empty(t, drain(q))
}

func TestScalerWithNewTargetMapsToSiblingsOfBothTargets(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).VerticalScalerToSiblings(), newQueue(t)
	mapper.Update(t.Context(), event.UpdateEvent{
		ObjectOld: newScaler("one", "changing", "web"),
		ObjectNew: newScaler("one", "changing", "other"),
	}, q)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b", "one/web"}, drain(q))
}

func TestUpdateThatKeepsTargetIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	reader := &flakyReader{Reader: indexedReader(t, population()...)}
	mapper, q := newMappers(t, reader).VerticalScalerToSiblings(), newQueue(t)
	mapper.Update(t.Context(), event.UpdateEvent{
		ObjectOld: newScaler("one", "scaler-a", "web"),
		ObjectNew: newScaler("one", "scaler-a", "web"),
	}, q)
	assert.ElementsMatch(t, []string{"one/scaler-a", "one/scaler-b"}, drain(q))
	assert.Equal(t, 1, reader.lookups(types.NamespacedName{Namespace: "one", Name: "web"}))
}

func TestObjectOfAnotherKindHasNoSiblings(t *testing.T) {
	t.Parallel()
	mapper, q := newMappers(t, indexedReader(t, population()...)).VerticalScalerToSiblings(), newQueue(t)
	mapper.Create(t.Context(), event.CreateEvent{Object: &corev1.Pod{ObjectMeta: named("one", "web")}}, q)
	assert.Empty(t, drain(q))
}

func TestLookupErrorNamesTheLookup(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "two", Name: "web"}
	mappers := newMappers(t, &flakyReader{failures: map[types.NamespacedName]int{key: -1, {Namespace: "two"}: -1}})
	for want, find := range map[string]lookup{
		"get by name: the cache failed":                 mappers.findByName(func() client.Object { return &examplev1alpha1.Busybox{} }),
		"list by spec.deploymentName: the cache failed": mappers.findVerticalScalers,
		"list by namespace: the cache failed":           mappers.findVerticalScalersOfNamespace,
	} {
		_, err := find(t.Context(), key)
		require.EqualError(t, err, want)
	}
}
