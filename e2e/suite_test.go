package e2e_test

import (
	"context"
	"slices"
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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is waited for happens soon, on a machine that has other work too; it is looked for
// often. The garbage collector takes up to half a minute to hear of a kind that is new.
const (
	soon  = 2 * time.Minute
	often = 50 * time.Millisecond
)

// newNamespace creates a namespace for one test, with labels in pairs, and returns its name.
// Pods can be created in it.
func newNamespace(t *testing.T, labels ...string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{}}}
	for pair := range slices.Chunk(labels, 2) {
		namespace.Labels[pair[0]] = pair[1]
	}
	create(t, namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	eventually(t, func(c *assert.CollectT) { refresh(c, account) })
	return namespace.Name
}

// eventually waits until a condition holds.
func eventually(t *testing.T, condition func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, condition, soon, often)
}

// create creates an object and returns it as it then is.
func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	require.NoError(t, env.client.Create(t.Context(), obj))
	return obj
}

// refresh reads an object anew.
func refresh[T client.Object](t require.TestingT, obj T) T {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.NoError(t, env.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// edit patches what with changes in an object.
func edit[T client.Object](t *testing.T, obj T, with func(T)) {
	t.Helper()
	refresh(t, obj)
	before, ok := obj.DeepCopyObject().(client.Object)
	require.True(t, ok)
	with(obj)
	require.NoError(t, env.client.Patch(t.Context(), obj, client.MergeFrom(before)))
}

// remove deletes an object, and does not wait until it is gone.
func remove(t *testing.T, obj client.Object, options ...client.DeleteOption) {
	t.Helper()
	require.NoError(t, env.client.Delete(t.Context(), obj, options...))
}

// gone waits until an object does not exist any more.
func gone(t *testing.T, obj client.Object) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		err := env.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj)
		require.True(c, apierrors.IsNotFound(err), "still there: %v", err)
	})
}

// kubectl runs kubectl in a namespace, as a user would, and returns what it printed.
func kubectl(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := env.Kubectl(t.Context(), append(args, "--namespace", namespace)...)
	require.NoError(t, err)
	return out
}

// deploymentOf returns the Deployment of a name.
func deploymentOf(t require.TestingT, namespace, name string) *appsv1.Deployment {
	return refresh(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// podsIn returns the pods of a namespace, all of them or those that options select.
func podsIn(t require.TestingT, namespace string, options ...client.ListOption) []corev1.Pod {
	var pods corev1.PodList
	options = append(options, client.InNamespace(namespace))
	require.NoError(t, env.client.List(context.Background(), &pods, options...))
	return pods.Items
}

// ownedPods returns the pods of a Deployment: those of ReplicaSets that it controls.
func ownedPods(t require.TestingT, deployment *appsv1.Deployment) []corev1.Pod {
	var sets appsv1.ReplicaSetList
	require.NoError(t, env.client.List(context.Background(), &sets, client.InNamespace(deployment.Namespace)))
	return slices.DeleteFunc(podsIn(t, deployment.Namespace), func(pod corev1.Pod) bool {
		return !slices.ContainsFunc(sets.Items, func(set appsv1.ReplicaSet) bool {
			return metav1.IsControlledBy(&set, deployment) && metav1.IsControlledBy(&pod, &set)
		})
	})
}

func names[T any, P interface {
	*T
	client.Object
}](items []T) []string {
	all := []string{}
	for i := range items {
		all = append(all, P(&items[i]).GetName())
	}
	slices.Sort(all)
	return all
}

// workloads returns, for each Deployment, ReplicaSet and pod of a namespace, what identifies
// it and its version.
func workloads(t require.TestingT, namespace string) map[string]string {
	found := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "ReplicaSet": &appsv1.ReplicaSetList{}, "Pod": &corev1.PodList{},
	} {
		require.NoError(t, env.client.List(context.Background(), list, client.InNamespace(namespace)))
		items, err := meta.ExtractList(list)
		require.NoError(t, err)
		for _, item := range items {
			obj, err := meta.Accessor(item)
			require.NoError(t, err)
			found[kind+" "+obj.GetName()] = string(obj.GetUID()) + " " + obj.GetResourceVersion()
		}
	}
	return found
}

// eventsOf returns the reasons of the events that an object has, each as often as it was recorded.
func eventsOf(t require.TestingT, obj client.Object) []string {
	var events eventsv1.EventList
	require.NoError(t, env.client.List(context.Background(), &events, client.InNamespace(obj.GetNamespace())))
	reasons := []string{}
	for i := range events.Items {
		event := &events.Items[i]
		if event.Regarding.UID != obj.GetUID() {
			continue
		}
		count := int32(1)
		if event.Series != nil {
			count = event.Series.Count
		}
		reasons = append(reasons, slices.Repeat([]string{event.Reason}, int(count))...)
	}
	slices.Sort(reasons)
	return reasons
}

// requireCondition requires a condition's status and reason.
func requireCondition(
	t require.TestingT, conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus, reason string,
) {
	condition := meta.FindStatusCondition(conditions, conditionType)
	require.NotNil(t, condition, "condition %s", conditionType)
	require.Equal(t, status, condition.Status, "status of %s: %s", conditionType, condition.Message)
	require.Equal(t, reason, condition.Reason, "reason of %s", conditionType)
}

// startWatch watches the objects of a namespace until the test ends.
func startWatch(t *testing.T, list client.ObjectList, namespace string) watch.Interface {
	t.Helper()
	w, err := env.client.Watch(t.Context(), list, client.InNamespace(namespace))
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// await waits for an event and returns when it came.
func await(t *testing.T, w watch.Interface, is func(watch.Event) bool) time.Time {
	t.Helper()
	late := time.After(soon)
	for {
		select {
		case event, open := <-w.ResultChan():
			require.True(t, open, "the watch has ended")
			require.NotEqual(t, watch.Error, event.Type, "the watch has failed: %v", event.Object)
			if is(event) {
				return time.Now()
			}
		case <-late:
			require.FailNow(t, "The event did not come")
		}
	}
}
