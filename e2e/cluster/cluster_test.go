package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/e2e/cluster"
	"example.com/upright/e2e/cluster/process"
)

const (
	tools = "../../.tools/bin"
	chart = "../charts/web"
)

// TestClusterBehavesAsOtherTestsExpect checks what the tests of other packages rely on. It uses
// one cluster, because each cluster takes seconds to start.
func TestClusterBehavesAsOtherTestsExpect(t *testing.T) {
	c := start(t)

	t.Run("pods of a Helm 4 release run", func(t *testing.T) {
		installChart(t, c, 4, "by-helm-4")
	})
	t.Run("pods of a Helm 3 release run", func(t *testing.T) {
		installChart(t, c, 3, "by-helm-3")
	})
	t.Run("the status of a pod shows an in-place resize", func(t *testing.T) {
		patch := `{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "150m"}}}]}}`
		pod := firstPod(t, c, "by-helm-4")
		_, err := c.Kubectl(t.Context(), "patch", "pod", pod.Name, "-n", pod.Namespace, "--subresource", "resize", "-p", patch)
		require.NoError(t, err)

		require.EventuallyWithT(t, func(t *assert.CollectT) {
			status := firstPod(t, c, "by-helm-4").Status.ContainerStatuses[0]
			require.NotNil(t, status.Resources)
			assert.Equal(t, "150m", status.Resources.Requests.Cpu().String())
			assert.Equal(t, "150m", status.AllocatedResources.Cpu().String())
			assert.Equal(t, "200m", status.Resources.Limits.Cpu().String())
			assert.Equal(t, "128Mi", status.Resources.Requests.Memory().String())
			assert.Zero(t, status.RestartCount)
		}, 10*time.Second, 50*time.Millisecond)
	})
	t.Run("the metrics API shows the usage in a pod's annotations", func(t *testing.T) {
		pod := firstPod(t, c, "by-helm-3")
		_, err := c.Kubectl(t.Context(), "annotate", "--overwrite", "pod", pod.Name, "-n", pod.Namespace,
			"kwok.x-k8s.io/usage-cpu=70m", "kwok.x-k8s.io/usage-memory=90Mi")
		require.NoError(t, err)

		require.EventuallyWithT(t, func(t *assert.CollectT) {
			usage, err := c.Kubectl(context.Background(), "top", "pod", pod.Name, "-n", pod.Namespace, "--no-headers")
			require.NoError(t, err)
			assert.Contains(t, usage, " 70m ")
			assert.Contains(t, usage, " 90Mi ")
		}, 2*time.Minute, time.Second)
	})
	t.Run("the garbage collector removes the dependents of a deleted Deployment", func(t *testing.T) {
		_, err := c.Helm(t.Context(), 4, "uninstall", "by-helm-4", "-n", "by-helm-4")
		require.NoError(t, err)

		require.EventuallyWithT(t, func(t *assert.CollectT) {
			left, err := c.Kubectl(context.Background(), "get", "replicasets,pods", "-n", "by-helm-4", "-o", "name")
			require.NoError(t, err)
			assert.Empty(t, left)
		}, 30*time.Second, 100*time.Millisecond)
	})
	t.Run("an error contains the output of the tool", func(t *testing.T) {
		_, err := c.Kubectl(t.Context(), "get", "deployment", "nowhere")
		require.ErrorContains(t, err, `deployments.apps "nowhere" not found`)

		_, err = c.Helm(t.Context(), 3, "status", "nowhere")
		require.ErrorContains(t, err, "release: not found")
	})
	t.Run("Stop leaves no process and no cluster to open", func(t *testing.T) {
		require.NoError(t, c.Stop(t.Context()))

		assertNoProcess(t, c.Dir())
		_, err := cluster.Open(c.Dir(), tools)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, c.Stop(t.Context()), "stopping it again")
	})
}

func TestFailedStartNamesTheLogsAndLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()

	_, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Tools: t.TempDir()})

	require.ErrorContains(t, err, "starting the control plane (its logs are in "+dir)
	assertNoProcess(t, dir)
}

func assertNoProcess(t *testing.T, dir string) {
	t.Helper()
	ids, err := process.Find(process.Mentions(dir))
	require.NoError(t, err)
	assert.Empty(t, ids, "processes of the cluster in %s", dir)
}

func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir(), Tools: tools})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop(context.WithoutCancel(t.Context()))) })
	return c
}

// installChart installs the chart as a release. The namespace has the same name, and enforces
// the restricted Pod Security Standard.
func installChart(t *testing.T, c *cluster.Cluster, helm int, name string) {
	t.Helper()
	require.NoError(t, c.Apply(t.Context(), strings.ReplaceAll(`
apiVersion: v1
kind: Namespace
metadata:
  name: NAME
  labels:
    pod-security.kubernetes.io/enforce: restricted
`, "NAME", name)))
	_, err := c.Helm(t.Context(), helm, "install", name, chart, "-n", name)
	require.NoError(t, err)
	_, err = c.Kubectl(t.Context(), "rollout", "status", "deployment", name, "-n", name, "--timeout=30s")
	require.NoError(t, err)
}

func firstPod(t require.TestingT, c *cluster.Cluster, namespace string) corev1.Pod {
	config, err := c.Config()
	require.NoError(t, err)
	reader, err := client.New(config, client.Options{})
	require.NoError(t, err)
	var pods corev1.PodList
	require.NoError(t, reader.List(context.Background(), &pods, client.InNamespace(namespace)))
	require.NotEmpty(t, pods.Items)
	return pods.Items[0]
}
