package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/e2e/cluster"
)

// The tests of this file stop the manager or the API server, so they are not parallel.

func TestManagerThatIsAskedToStopReleasesItsLeaseAndExitsWithoutError(t *testing.T) {
	isLeader(t)
	before := leaseHolder(t)

	require.NoError(t, env.manager.Stop(t.Context()), "exit code 0")

	assert.Empty(t, leaseHolder(t))
	stopped := time.Now()
	require.NoError(t, env.startManager(t.Context()))
	isLeader(t)
	t.Logf("another manager acted %v later", time.Since(stopped))
	assert.NotEqual(t, before, leaseHolder(t))
	assert.Less(t, time.Since(stopped), 10*time.Second, "it need not wait until the Lease runs out")
}

// An older API server does not stream to a watch what a list has.
func TestManagerListsWhereTheAPIServerDoesNotStreamLists(t *testing.T) {
	namespace := newNamespace(t)
	scaler := newScaler(namespace, "scaler", "app-foos")
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	require.NoError(t, env.manager.Stop(t.Context()))

	require.NoError(t, env.startManager(t.Context()))

	create(t, scaler)
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "app-"+k.resource, 1))
	}
	findsTarget(t, scaler)
	remove(t, scaler) // Its pods use something, so that its status changes during other tests.
}

func TestManagerThatStartsAgainWritesNothingWhereNothingChanged(t *testing.T) {
	namespace := newNamespace(t)
	create(t, newDeployment(namespace, "web", 0)) // What a pod uses changes all the time.
	scaler := create(t, newScaler(namespace, "web", "web"))
	conflicted := create(t, newScaler(namespace, "web-2", "web"))
	for _, k := range kinds {
		createReady(t, k.newOwner(namespace, "app-"+k.resource, 2))
	}
	taken := newFoo(namespace, "web", 1)
	create(t, taken)
	becomesDegraded(t, taken, "DeploymentNameTaken")
	findsTarget(t, scaler)
	eventually(t, func(c *assert.CollectT) {
		requireCondition(c, refresh(c, conflicted).Status.Conditions, "Conflicted", metav1.ConditionTrue, "Conflicted")
	})
	require.NoError(t, env.manager.Stop(t.Context()))
	before, err := auditedRequests()
	require.NoError(t, err)

	require.NoError(t, env.startManager(t.Context()))

	hasReconciledEverything(t)
	after, err := auditedRequests()
	require.NoError(t, err)
	for _, r := range after[len(before):] {
		assert.False(t, r.writes(), "%s %s", r.Verb, r.RequestURI)
	}
	assert.Greater(t, len(after), len(before), "the audit log has what the manager does")
}

func TestManagerThatWasKilledBringsUpToDateWhatChangedMeanwhile(t *testing.T) {
	namespace := newNamespace(t)
	target := create(t, newDeployment(namespace, "web", 1))
	orphaned, found := newScaler(namespace, "orphaned", "web"), newScaler(namespace, "found", "late")
	create(t, orphaned)
	create(t, found)
	findsTarget(t, orphaned)
	missesTarget(t, found)
	busybox := &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "box"}}
	memcached, foo := newMemcached(namespace, "cache", 2), newFoo(namespace, "front", 1)
	taken := newFoo(namespace, "web", 1)
	for _, owner := range []client.Object{busybox, memcached, foo} {
		createReady(t, owner)
	}
	create(t, taken)
	becomesDegraded(t, taken, "DeploymentNameTaken")

	env.manager.Kill()
	killed := time.Now()
	edit(t, busybox, func(b *examplev1alpha1.Busybox) { b.Spec.Size = ptr.To[int32](3) })
	kubectl(t, namespace, "delete", "deployment", memcached.Name)
	edit(t, foo, func(f *examplev1alpha1.Foo) { f.Spec.DeploymentName = "renamed" })
	remove(t, target)
	gone(t, target)
	create(t, newDeployment(namespace, "late", 1))
	born := newMemcached(namespace, "born", 1)
	create(t, born)
	require.NoError(t, env.startManager(t.Context()))

	for _, owner := range []client.Object{busybox, memcached, foo, taken, born} {
		becomesReady(t, owner)
	}
	t.Logf("all was up to date %v after the manager was killed; its Lease runs for 15s", time.Since(killed))
	findsTarget(t, orphaned) // The Foo that wanted the name has it now, and a scaler may size its Deployment.
	findsTarget(t, found)
	assert.Len(t, ownedPods(t, deploymentOf(t, namespace, "box")), 3)
	assert.Len(t, ownedPods(t, deploymentOf(t, namespace, memcached.Name)), 2)
	assert.True(t, metav1.IsControlledBy(deploymentOf(t, namespace, "web"), taken))
	eventually(t, func(c *assert.CollectT) { require.NotContains(c, workloads(c, namespace), "Deployment front") })
}

func TestManagerCatchesUpAfterTheAPIServerHungForAWhile(t *testing.T) {
	namespace := newNamespace(t)
	memcached := newMemcached(namespace, "cache", 1)
	createReady(t, memcached)
	scaler := create(t, newScaler(namespace, "scaler", "late"))
	missesTarget(t, scaler)
	apiServer := apiServerProcess(t)

	require.NoError(t, apiServer.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = apiServer.Signal(syscall.SIGCONT) })
	_, err := env.Kubectl(t.Context(), "get", "--raw", "/readyz", "--request-timeout=5s")
	require.Error(t, err, "the API server hangs")
	require.NoError(t, apiServer.Signal(syscall.SIGCONT))

	eventually(t, func(c *assert.CollectT) { require.NoError(c, env.Ready(context.Background())) })
	edit(t, memcached, func(m *cachev1alpha1.Memcached) { m.Spec.Size = ptr.To[int32](2) })
	create(t, newDeployment(namespace, "late", 1))
	becomesReady(t, memcached)
	findsTarget(t, scaler)
	assert.Len(t, ownedPods(t, deploymentOf(t, namespace, "cache")), 2)
	select {
	case <-env.manager.Exited():
		require.Fail(t, "The manager has ended", "%v", env.manager.Wait())
	default:
	}
}

// whileManagerIsStopped does something between a manager and the next, which is started in any case.
func whileManagerIsStopped(t *testing.T, do func()) {
	t.Helper()
	require.NoError(t, env.manager.Stop(t.Context()))
	defer func() { assert.NoError(t, env.startManager(context.WithoutCancel(t.Context()))) }()
	do()
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

// leaseHolder returns who holds the manager's Lease, nobody where that is empty.
func leaseHolder(t require.TestingT) string {
	lease := refresh(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.ManagerNamespace, Name: "upright-manager",
	}})
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// isLeader waits until a manager holds the Lease.
func isLeader(t *testing.T) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) { require.NotEmpty(c, leaseHolder(c)) })
}

// hasReconciledEverything waits until the manager that was started last has been through
// every object and has no more work.
func hasReconciledEverything(t *testing.T) {
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
			passes := metric(c, body, "controller_runtime_reconcile_total", `controller="`+controller+`"`)
			require.GreaterOrEqual(c, int(passes), meta.LenList(list), controller)
			require.Zero(c, metric(c, body, "workqueue_depth", `name="`+controller+`"`), controller)
			require.Zero(c, metric(c, body, "controller_runtime_active_workers", `controller="`+controller+`"`), controller)
		}
	})
}
