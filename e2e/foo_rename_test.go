package e2e_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// At first, a quota prevents the pods of the new Deployment.
func TestRenamedFooKeepsOldDeploymentUntilNewOneIsAvailable(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	quota := createPodQuota(t, namespace, 2)
	foo := newFoo(namespace, "old", 2)
	createReady(t, foo)
	previous := getDeployment(t, namespace, "old")
	pods := countRunning(t, namespace)
	deployments := startWatch(t, &appsv1.DeploymentList{}, namespace)

	edit(t, foo, func(f *examplev1alpha1.Foo) { f.Spec.DeploymentName = "new" })
	waitForDegraded(t, foo, "PodsRefused")
	assert.Equal(t, int32(2), refresh(t, previous).Status.AvailableReplicas, "pods of the old Deployment")
	setPodQuota(t, quota, 4)

	var next *appsv1.Deployment
	waitForWatchEvent(t, deployments, func(e watch.Event) bool {
		deployment, ok := e.Object.(*appsv1.Deployment)
		require.True(t, ok)
		if deployment.Name == "new" {
			next = deployment
		}
		return deployment.Name == "old" && e.Type == watch.Deleted
	})
	require.NotNil(t, next)
	assert.Equal(t, int32(2), next.Status.AvailableReplicas, "pods of the new Deployment when the old one was deleted")
	waitForReady(t, foo)
	waitForPods(t, next, 2)
	assert.Equal(t, 2, pods.minimum(), "running pods at any time")
}

// runningPods counts the running pods of a namespace that are not being deleted.
type runningPods struct {
	mutex    sync.Mutex
	running  map[string]bool
	lowest   int
	watching watch.Interface
}

// countRunning counts running pods until the test ends.
func countRunning(t *testing.T, namespace string) *runningPods {
	t.Helper()
	r := &runningPods{running: map[string]bool{}, watching: startWatch(t, &corev1.PodList{}, namespace)}
	for _, pod := range listPods(t, namespace) {
		r.count(&pod, false)
	}
	r.lowest = len(r.running)
	go func() {
		for event := range r.watching.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				r.count(pod, event.Type == watch.Deleted)
			}
		}
	}()
	return r
}

func (r *runningPods) count(pod *corev1.Pod, deleted bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if deleted || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		delete(r.running, pod.Name)
	} else {
		r.running[pod.Name] = true
	}
	r.lowest = min(r.lowest, len(r.running))
}

// minimum returns the lowest count so far.
func (r *runningPods) minimum() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.lowest
}
