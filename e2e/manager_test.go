package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// The tests of this file stop the manager or the API server, so they are not parallel.

// The restarted manager lists its objects, as it does with an older API server that does not stream
// lists to watches. This is the only test that uses the list permissions of the manager's role.
func TestRestartedManagerListsObjectsAndWritesNothing(t *testing.T) {
	namespace := newNamespace(t)
	create(t, newDeployment(namespace, "web", 0)) // Without pods, so that the usage changes nothing.
	scaler := create(t, newScaler(namespace, "web", "web"))
	conflicting := create(t, newScaler(namespace, "web-2", "web"))
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "app-"+k.resource, 2))
	}
	blocked := newFoo(namespace, "web", 1)
	create(t, blocked)
	waitForDegraded(t, blocked, "DeploymentNameTaken")
	waitForTarget(t, scaler)
	eventually(t, func(c *assert.CollectT) {
		requireCondition(c, refresh(c, conflicting).Status.Conditions, "Conflicted", metav1.ConditionTrue, "Conflicted")
	})
	require.NoError(t, env.manager.Stop(t.Context()))
	before, err := auditedRequests()
	require.NoError(t, err)
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")

	require.NoError(t, env.startManager(t.Context()))

	waitForAllReconciled(t)
	after, err := auditedRequests()
	require.NoError(t, err)
	isListed := false
	for _, r := range after[len(before):] {
		assert.False(t, r.writes(), "%s %s", r.Verb, r.RequestURI)
		isListed = isListed || r.permission() == permission{verb: "list", group: "apps", resource: "deployments"}
	}
	assert.True(t, isListed, "the manager lists Deployments")

	// It also sees what changes after the list.
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "late-"+k.resource, 1))
	}
	late := create(t, newScaler(namespace, "late", "late"))
	create(t, newDeployment(namespace, "late", 0))
	waitForTarget(t, late)
}

// The new manager has to wait until the Lease of the killed one expires, which takes 15 seconds.
func TestManagerCatchesUpAfterTheOneBeforeWasKilled(t *testing.T) {
	namespace := newNamespace(t)
	target := create(t, newDeployment(namespace, "web", 1))
	ofDeleted, ofMissing := newScaler(namespace, "of-deleted", "web"), newScaler(namespace, "of-missing", "late")
	create(t, ofDeleted)
	create(t, ofMissing)
	waitForTarget(t, ofDeleted)
	waitForNoTarget(t, ofMissing)
	busybox := &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "box"}}
	memcached, foo := newMemcached(namespace, "cache", 2), newFoo(namespace, "front", 1)
	blocked := newFoo(namespace, "web", 1)
	for _, owner := range []client.Object{busybox, memcached, foo} {
		createReady(t, owner)
	}
	create(t, blocked)
	waitForDegraded(t, blocked, "DeploymentNameTaken")

	env.manager.Kill()
	edit(t, busybox, func(b *examplev1alpha1.Busybox) { b.Spec.Size = ptr.To[int32](3) })
	kubectl(t, namespace, "delete", "deployment", memcached.Name)
	edit(t, foo, func(f *examplev1alpha1.Foo) { f.Spec.DeploymentName = "renamed" })
	remove(t, target)
	waitForGone(t, target)
	create(t, newDeployment(namespace, "late", 1))
	created := newMemcached(namespace, "created", 1)
	create(t, created)
	require.NoError(t, env.startManager(t.Context()))

	for _, owner := range []client.Object{busybox, memcached, foo, blocked, created} {
		waitForReady(t, owner)
	}
	waitForTarget(t, ofDeleted) // Now the Foo owns a Deployment with this name.
	waitForTarget(t, ofMissing)
	assert.Len(t, ownedPods(t, getDeployment(t, namespace, "box")), 3)
	assert.Len(t, ownedPods(t, getDeployment(t, namespace, memcached.Name)), 2)
	assert.True(t, metav1.IsControlledBy(getDeployment(t, namespace, "web"), blocked))
	eventually(t, func(c *assert.CollectT) { require.NotContains(c, workloadVersions(c, namespace), "Deployment front") })
}

func TestManagerCatchesUpAfterTheAPIServerHung(t *testing.T) {
	namespace := newNamespace(t)
	memcached := newMemcached(namespace, "cache", 1)
	createReady(t, memcached)
	scaler := create(t, newScaler(namespace, "scaler", "late"))
	waitForNoTarget(t, scaler)
	apiServer := apiServerProcess(t)

	require.NoError(t, apiServer.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = apiServer.Signal(syscall.SIGCONT) })
	_, err := env.Kubectl(t.Context(), "get", "--raw", "/readyz", "--request-timeout=5s")
	require.Error(t, err, "the API server hangs")
	require.NoError(t, apiServer.Signal(syscall.SIGCONT))

	eventually(t, func(c *assert.CollectT) { require.NoError(c, env.Ready(context.Background())) })
	edit(t, memcached, func(m *cachev1alpha1.Memcached) { m.Spec.Size = ptr.To[int32](2) })
	create(t, newDeployment(namespace, "late", 1))
	waitForReady(t, memcached)
	waitForTarget(t, scaler)
	assert.Len(t, ownedPods(t, getDeployment(t, namespace, "cache")), 2)
	select {
	case <-env.manager.Exited():
		require.Fail(t, "the manager exited", "%v", env.manager.Wait())
	default:
	}
}

// withManagerStopped stops the manager, runs f, and starts a manager again, also if f fails.
func withManagerStopped(t *testing.T, f func()) {
	t.Helper()
	require.NoError(t, env.manager.Stop(t.Context()))
	defer func() { assert.NoError(t, env.startManager(context.WithoutCancel(t.Context()))) }()
	f()
}

// apiServerProcess returns the process of the API server.
func apiServerProcess(t *testing.T) *os.Process {
	t.Helper()
	file := filepath.Join(filepath.Dir(env.Logs()), "pids", "kube-apiserver.pid")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	process, err := os.FindProcess(id)
	require.NoError(t, err)
	return process
}

// waitForAllReconciled waits until the current manager has reconciled every object and has no work left.
func waitForAllReconciled(t *testing.T) {
	t.Helper()
	namespace := newNamespace(t)
	token := newToken(t, namespace, "scraper")
	bindMetricsReader(t, namespace, "scraper")
	eventually(t, func(c *assert.CollectT) {
		status, body := scrape(c, token)
		require.Equal(c, 200, status)
		for controller, list := range map[string]client.ObjectList{
			"busybox":        &examplev1alpha1.BusyboxList{},
			"foo":            &examplev1alpha1.FooList{},
			"memcached":      &cachev1alpha1.MemcachedList{},
			"verticalscaler": &autoscalingv1beta1.VerticalScalerList{},
		} {
			require.NoError(c, env.client.List(context.Background(), list))
			reconciles := metric(c, body, "controller_runtime_reconcile_total", `controller="`+controller+`"`)
			require.GreaterOrEqual(c, int(reconciles), meta.LenList(list), controller)
			require.Zero(c, metric(c, body, "workqueue_depth", `name="`+controller+`"`), controller)
			require.Zero(c, metric(c, body, "controller_runtime_active_workers", `controller="`+controller+`"`), controller)
		}
	})
}
