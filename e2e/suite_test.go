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

// The timeout is generous: the machine has other work, and the garbage collector takes up to half
// a minute to find a new kind.
const (
	timeout      = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// newNamespace creates a namespace for one test, with labels in pairs, and returns its name.
// It returns when pods can be created in the namespace.
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

// eventually waits until a condition is true.
func eventually(t *testing.T, condition func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, condition, timeout, pollInterval)
}

// create creates an object and returns it as the API server stored it.
func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	require.NoError(t, env.client.Create(t.Context(), obj))
	return obj
}

// refresh reads an object again.
func refresh[T client.Object](t require.TestingT, obj T) T {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.NoError(t, env.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// edit reads an object, changes it, and patches the difference.
func edit[T client.Object](t *testing.T, obj T, change func(T)) {
	t.Helper()
	refresh(t, obj)
	before, ok := obj.DeepCopyObject().(client.Object)
	require.True(t, ok)
	change(obj)
	require.NoError(t, env.client.Patch(t.Context(), obj, client.MergeFrom(before)))
}

// remove deletes an object and does not wait until it is gone.
func remove(t *testing.T, obj client.Object, options ...client.DeleteOption) {
	t.Helper()
	require.NoError(t, env.client.Delete(t.Context(), obj, options...))
}

// waitForGone waits until an object no longer exists.
func waitForGone(t *testing.T, obj client.Object) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		err := env.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj)
		require.True(c, apierrors.IsNotFound(err), "the object still exists: %v", err)
	})
}

// kubectl runs kubectl in a namespace as the cluster administrator and returns its output.
func kubectl(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := env.Kubectl(t.Context(), append(args, "--namespace", namespace)...)
	require.NoError(t, err)
	return out
}

func getDeployment(t require.TestingT, namespace, name string) *appsv1.Deployment {
	return refresh(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// listPods returns all pods of a namespace.
func listPods(t require.TestingT, namespace string) []corev1.Pod {
	var pods corev1.PodList
	require.NoError(t, env.client.List(context.Background(), &pods, client.InNamespace(namespace)))
	return pods.Items
}

// ownedPods returns the pods of all ReplicaSets that a Deployment controls.
func ownedPods(t require.TestingT, deployment *appsv1.Deployment) []corev1.Pod {
	var sets appsv1.ReplicaSetList
	require.NoError(t, env.client.List(context.Background(), &sets, client.InNamespace(deployment.Namespace)))
	return slices.DeleteFunc(listPods(t, deployment.Namespace), func(pod corev1.Pod) bool {
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

// workloadVersions returns the UID and the resource version of each Deployment, ReplicaSet and pod
// of a namespace.
func workloadVersions(t require.TestingT, namespace string) map[string]string {
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

// waitForNoWorkloads waits until a namespace has no Deployment, ReplicaSet or pod.
func waitForNoWorkloads(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) { require.Empty(c, workloadVersions(c, namespace)) })
}

// waitForSettled waits until a Deployment is rolled out and its controller has nothing left to write.
func waitForSettled(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		status := refresh(c, deployment).Status
		require.Equal(c, deployment.Generation, status.ObservedGeneration)
		require.Equal(c, *deployment.Spec.Replicas, status.UpdatedReplicas)
		require.Equal(c, *deployment.Spec.Replicas, status.AvailableReplicas)
		require.Equal(c, *deployment.Spec.Replicas, status.Replicas)
		for _, condition := range status.Conditions {
			if condition.Type == appsv1.DeploymentProgressing {
				require.Equal(c, "NewReplicaSetAvailable", condition.Reason)
			}
		}
	})
}

// waitForPods waits until a namespace has only the pods of one Deployment, and these run its image.
func waitForPods(t *testing.T, deployment *appsv1.Deployment, count int) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		pods := ownedPods(c, deployment)
		require.Len(c, pods, count)
		require.Len(c, listPods(c, deployment.Namespace), count, "all pods of the namespace")
		for i := range pods {
			require.Equal(c, corev1.PodRunning, pods[i].Status.Phase)
			require.Equal(c, deployment.Spec.Template.Spec.Containers[0].Image, pods[i].Spec.Containers[0].Image)
		}
	})
}

// eventReasons returns the reason of each event of an object, repeated as often as it was recorded.
func eventReasons(t require.TestingT, obj client.Object) []string {
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

// requireWarningEvent requires that an object has a Warning event with this reason and note.
func requireWarningEvent(t require.TestingT, regarding client.Object, reason, note string) {
	var events eventsv1.EventList
	require.NoError(t, env.client.List(context.Background(), &events, client.InNamespace(regarding.GetNamespace())))
	for i := range events.Items {
		event := &events.Items[i]
		if event.Regarding.UID == regarding.GetUID() && event.Reason == reason {
			require.Equal(t, "Warning", event.Type)
			require.Equal(t, note, event.Note)
			return
		}
	}
	require.Fail(t, "no event", "reason %s", reason)
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

// waitForWatchEvent reads events from a watch up to the first that matches.
func waitForWatchEvent(t *testing.T, w watch.Interface, matches func(watch.Event) bool) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		select {
		case event, open := <-w.ResultChan():
			require.True(t, open, "the watch ended")
			require.NotEqual(t, watch.Error, event.Type, "the watch failed: %v", event.Object)
			if matches(event) {
				return
			}
		case <-deadline:
			require.FailNow(t, "no matching event")
		}
	}
}
