package recommendation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// createRunning creates a Deployment whose template has container "app", a pod that runs, and a
// scaler.
func createRunning(t *testing.T, namespace string) (*autoscalingv1beta1.VerticalScaler, *corev1.Pod) {
	t.Helper()
	deployment := testenv.NewDeployment(namespace, "web")
	deployment.Spec.Template.Spec.Containers = []corev1.Container{testenv.NewContainer("app")}
	testenv.Create(t, env, deployment)
	pod := testenv.Create(t, env, testenv.NewPod(namespace, "web", "aaaaa", "app"))
	testenv.RunPod(t, env, pod)
	return testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web")), pod
}

// waitForResize waits until a pod's memory request is higher than when it was created.
func waitForResize(t *testing.T, pod *corev1.Pod) resource.Quantity {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Greater(c, testenv.Refresh(c, env, pod).Spec.Containers[0].Resources.Requests.Memory().Value(), int64(requestedMemory))
	}, testenv.Timeout, testenv.Poll)
	return *pod.Spec.Containers[0].Resources.Requests.Memory()
}

// completeResize writes the status that the kubelet writes when it has resized a pod.
func completeResize(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	pod.Status.ContainerStatuses[0].Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// waitForKills waits until a manager has counted a number of OOM kills.
func waitForKills(t *testing.T, m *testenv.Manager, kills float64) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.InDelta(c, kills, m.Value(c, "upright_oom_kills_total"), 0)
	}, testenv.Timeout, testenv.Poll)
}

// killedOnce returns the recommendation after an OOM kill at the memory of testenv.NewPod.
func killedOnce(t *testing.T) autoscalingv1beta1.ContainerRecommendation {
	t.Helper()
	history := historyOf(t, "app")
	addOOMKill(t, history, 1)
	return recommended("app", history, 1)
}

func TestOOMKillsCountAtTheMemoryInForceWhileAResizeIsDeferred(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createRunning(t, namespace)
	m := startManager(t, namespace, &testenv.Meter{})
	waitForReady(t, scaler, isFalse, "NoSamples")
	for n := 1; n <= 8; n++ {
		testenv.OOMKill(t, env, pod, "app", n)
		waitForKills(t, m, float64(n))
		wanted := waitForResize(t, pod)
		assert.Equal(t, "423Mi", wanted.String())
		waitForTargets(t, scaler, killedOnce(t))
	}
	completeResize(t, pod)
	testenv.OOMKill(t, env, pod, "app", 9)
	waitForKills(t, m, 9)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, "641Mi", testenv.Refresh(c, env, scaler).Status.PodTarget.Memory().String(), "423Mi are in force")
	}, testenv.Timeout, testenv.Poll)
}

func TestUnsavedOOMKillDoesNotCountAtTheGrownMemoryAfterRestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createRunning(t, namespace)
	for restarts := range 3 {
		connection := testenv.NewConnection()
		m := startManager(t, namespace, &testenv.Meter{}, connection.Use)
		if restarts == 0 {
			waitForReady(t, scaler, isFalse, "NoSamples")
			testenv.OOMKill(t, env, pod, "app", 1)
			waitForResize(t, pod)
			completeResize(t, pod)
		}
		waitForKills(t, m, 1)
		waitForTargets(t, scaler, killedOnce(t))
		assertRecommendationsStay(t, scaler)
		connection.Cut() // No checkpoint is written.
		m.Stop()
	}
}

func TestRecreatedScalerDoesNotCountAnOOMKillAtTheGrownMemory(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createRunning(t, namespace)
	m := startManager(t, namespace, &testenv.Meter{})
	waitForReady(t, scaler, isFalse, "NoSamples")
	testenv.OOMKill(t, env, pod, "app", 1)
	waitForResize(t, pod)
	completeResize(t, pod)
	waitForTargets(t, scaler, killedOnce(t))
	for n := 2; n <= 4; n++ {
		testenv.Delete(t, env, scaler)
		testenv.WaitUntilDeleted(t, env, scaler)
		scaler = testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))
		waitForKills(t, m, float64(n))
		waitForTargets(t, scaler, killedOnce(t))
	}
	assertRecommendationsStay(t, scaler)
}

func TestOOMKillWithAnImpossibleTimeFailsNoReconcile(t *testing.T) {
	t.Parallel()
	for name, finished := range map[string]metav1.Time{
		"zero": {}, "future": metav1.NewTime(time.Now().Add(1000 * time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createRunning(t, namespace)
			var source testenv.Meter
			m := startManager(t, namespace, &source)
			waitForReady(t, scaler, isFalse, "NoSamples")
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "OOMKilled", FinishedAt: finished,
			}
			require.NoError(t, env.Client.Status().Update(t.Context(), pod))
			waitForTargets(t, scaler, killedOnce(t))
			waitForReady(t, scaler, isTrue, "Recommended")
			waitForKills(t, m, 1)
			m.Stop()

			// The manager that follows still learns from usage.
			m = startManager(t, namespace, &source)
			source.Set(afterRestart(testenv.SteadyUsage(pod, "app", 0.2, 300, 1))...)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.InDelta(c, 1, m.Value(c, "upright_usage_samples_attributed_total"), 0)
			}, testenv.Timeout, testenv.Poll)
			assert.Zero(t, m.Value(t, "upright_oom_kills_total"), "the kill is in the checkpoint")
		})
	}
}
