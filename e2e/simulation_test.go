package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These tests cover the simulated nodes, which e2e/cluster/manifests/simulation defines.

// Annotations of a pod that control its simulated node.
const (
	annotationOOMKill     = "simulation.upright.example.com/oom-kill"
	annotationHoldRestart = "simulation.upright.example.com/hold-restart"
	annotationResize      = "simulation.upright.example.com/resize" // The answer to a resize.
)

func TestSimulatedUsageOfAContainerOverridesThatOfItsPod(t *testing.T) {
	t.Parallel()
	pod := startPod(t, "kwok.x-k8s.io/usage-cpu", "70m", "kwok.x-k8s.io/usage-memory", "90Mi",
		"usage-cpu.kwok.x-k8s.io/"+longName, "300m", "usage-memory.kwok.x-k8s.io/"+longName, "200Mi",
		"usage-cpu.kwok.x-k8s.io/sidecar", "2", "usage-memory.kwok.x-k8s.io/sidecar", "2Gi")
	waitForUsage(t, pod, map[string]consumption{"app": {70, 90}, longName: {300, 200}, "sidecar": {2000, 2048}})

	annotate(t, pod, "kwok.x-k8s.io/usage-memory", "100Mi",
		"usage-cpu.kwok.x-k8s.io/app", "500m", "usage-cpu.kwok.x-k8s.io/"+longName, "40m",
		"usage-memory.kwok.x-k8s.io/sidecar", "20Mi")

	waitForUsage(t, pod, map[string]consumption{"app": {500, 100}, longName: {40, 200}, "sidecar": {2000, 20}})
}

func TestSimulatedOOMKillHappensOncePerAnnotationValue(t *testing.T) {
	t.Parallel()
	for _, container := range []string{"app", "sidecar"} {
		t.Run(container, func(t *testing.T) {
			t.Parallel()
			pod := startPod(t)
			before := containerStatuses(pod)

			annotate(t, pod, annotationOOMKill, container+"/1")

			first := waitForRestart(t, pod, container, 1)
			requireOOMKilled(t, first.LastTerminationState.Terminated)
			assert.Equal(t, before[container].State.Running.StartedAt, first.LastTerminationState.Terminated.StartedAt)
			annotate(t, pod, annotationOOMKill, container+"/2")
			second := waitForRestart(t, pod, container, 2)
			requireOOMKilled(t, second.LastTerminationState.Terminated)
			assert.Equal(t, first.State.Running.StartedAt, second.LastTerminationState.Terminated.StartedAt)
			assert.Equal(t, first.ContainerID, second.LastTerminationState.Terminated.ContainerID)
			after := containerStatuses(pod)
			delete(before, container)
			delete(after, container)
			assert.Equal(t, before, after, "the other containers")
			requirePodCondition(t, pod, corev1.PodReady, corev1.ConditionTrue, "")
		})
	}
}

func TestSimulatedOOMKillHappensOncePerPodOfAnAnnotatedTemplate(t *testing.T) {
	t.Parallel()

	pod := startPod(t, annotationOOMKill, "app/1")

	requireOOMKilled(t, waitForRestart(t, pod, "app", 1).LastTerminationState.Terminated)
	annotate(t, pod, "some.example.com/other", "annotation")
	requestResize(t, pod, "app", corev1.ResourceCPU, "200m")
	waitForResized(t, pod, "app", corev1.ResourceCPU, "200m")
	require.Equal(t, int32(1), containerStatuses(pod)["app"].RestartCount)
	requireOOMKilled(t, containerStatuses(pod)["app"].LastTerminationState.Terminated)
}

func TestSimulatedOOMKillKeepsAContainerTerminatedWhileRestartsAreOnHold(t *testing.T) {
	t.Parallel()
	pod := startPod(t, annotationHoldRestart, "")

	annotate(t, pod, annotationOOMKill, "app/1")

	eventually(t, func(c *assert.CollectT) {
		requireOOMKilled(c, containerStatuses(refresh(c, pod))["app"].State.Terminated)
	})
	requestResize(t, pod, longName, corev1.ResourceCPU, "200m")
	waitForResized(t, pod, longName, corev1.ResourceCPU, "200m")
	killed := containerStatuses(pod)["app"]
	requireOOMKilled(t, killed.State.Terminated)
	assert.False(t, killed.Ready)
	assert.Zero(t, killed.RestartCount)
	requirePodCondition(t, pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")
	requirePodCondition(t, pod, corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady")
	edit(t, pod, func(p *corev1.Pod) { delete(p.Annotations, annotationHoldRestart) })
	assert.Equal(t, killed.State, waitForRestart(t, pod, "app", 1).LastTerminationState)
}

func TestSimulatedResizeRestartsAContainerAsItsPolicyRequires(t *testing.T) {
	t.Parallel()
	for _, container := range []string{"app", "sidecar"} {
		t.Run(container, func(t *testing.T) {
			t.Parallel()
			pod := startPod(t)

			requestResize(t, pod, container, corev1.ResourceCPU, "200m")
			waitForResized(t, pod, container, corev1.ResourceCPU, "200m")
			require.Zero(t, containerStatuses(pod)[container].RestartCount)

			requestResize(t, pod, container, corev1.ResourceMemory, "200Mi")
			restarted := waitForRestart(t, pod, container, 1)
			waitForResized(t, pod, container, corev1.ResourceMemory, "200Mi")
			require.NotNil(t, restarted.LastTerminationState.Terminated)
			assert.Equal(t, "Completed", restarted.LastTerminationState.Terminated.Reason)
			assert.Zero(t, restarted.LastTerminationState.Terminated.ExitCode)
		})
	}
}

func TestSimulatedResizeGetsTheAnswerOfTheAnnotation(t *testing.T) {
	t.Parallel()
	for answer, condition := range map[string]corev1.PodConditionType{
		corev1.PodReasonDeferred: corev1.PodResizePending, corev1.PodReasonInfeasible: corev1.PodResizePending,
		corev1.PodReasonError: corev1.PodResizeInProgress,
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			pod := startPod(t, annotationResize, answer)
			allocated := map[corev1.PodConditionType]string{corev1.PodResizePending: "100m", corev1.PodResizeInProgress: "200m"}

			for range 2 {
				requestResize(t, pod, "app", corev1.ResourceCPU, "200m")
				eventually(t, func(c *assert.CollectT) {
					requirePodCondition(c, refresh(c, pod), condition, corev1.ConditionTrue, answer)
				})
				status := containerStatuses(pod)["app"]
				assert.Equal(t, "100m", status.Resources.Requests.Cpu().String())
				assert.Equal(t, allocated[condition], status.AllocatedResources.Cpu().String())

				requestResize(t, pod, "app", corev1.ResourceCPU, "100m")
				waitForResized(t, pod, "app", corev1.ResourceCPU, "100m")
			}

			requestResize(t, pod, "app", corev1.ResourceCPU, "300m")
			eventually(t, func(c *assert.CollectT) {
				requirePodCondition(c, refresh(c, pod), condition, corev1.ConditionTrue, answer)
			})
			edit(t, pod, func(p *corev1.Pod) { delete(p.Annotations, annotationResize) })
			waitForResized(t, pod, "app", corev1.ResourceCPU, "300m")
		})
	}
}

// longName has the maximum length of a container's name.
var longName = strings.Repeat("x", 63)

// consumption is CPU usage in millicores and memory usage in mebibytes.
type consumption struct {
	cpu    float64
	memory float64
}

// waitForUsage waits until the metrics API shows this usage of each container of a pod. CPU usage is not
// exact: the time between two measurements is not.
func waitForUsage(t *testing.T, pod *corev1.Pod, containers map[string]consumption) {
	t.Helper()
	metrics, err := versioned.NewForConfig(env.config)
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) {
		found, err := metrics.MetricsV1beta1().PodMetricses(pod.Namespace).Get(context.Background(), pod.Name, metav1.GetOptions{})
		require.NoError(c, err)
		require.Len(c, found.Containers, len(containers))
		for _, container := range found.Containers {
			want := containers[container.Name]
			assert.InEpsilon(c, want.cpu, container.Usage.Cpu().AsApproximateFloat64()*1000, 0.1, "CPU of %s", container.Name)
			assert.InEpsilon(c, want.memory, container.Usage.Memory().Value()>>20, 0.001, "memory of %s", container.Name)
		}
	})
}

// startPod starts a pod of a Deployment in a new namespace. The pod has two containers, a sidecar, and
// these annotations, in pairs.
func startPod(t *testing.T, annotations ...string) *corev1.Pod {
	t.Helper()
	deployment := newDeployment(newNamespace(t), "app", 1)
	template := &deployment.Spec.Template
	template.Annotations = pairs(annotations)
	image := template.Spec.Containers[0].Image
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi"),
	}}
	policy := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	template.Spec.Containers = []corev1.Container{
		{Name: "app", Image: image, Resources: resources, ResizePolicy: policy},
		{Name: longName, Image: image, Resources: resources},
	}
	template.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: image},
		{
			Name: "sidecar", Image: image, Resources: resources, ResizePolicy: policy,
			RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		},
	}
	create(t, deployment)
	waitForPods(t, deployment, 1)
	return &listPods(t, deployment.Namespace)[0]
}

// annotate sets annotations, in pairs, on a pod.
func annotate(t *testing.T, pod *corev1.Pod, annotations ...string) {
	t.Helper()
	edit(t, pod, func(p *corev1.Pod) {
		for key, value := range pairs(annotations) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
		}
	})
}

// pairs returns annotations, given in pairs, as a map.
func pairs(annotations []string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return all
}

// containerStatuses returns the status of each container of a pod by name.
func containerStatuses(pod *corev1.Pod) map[string]corev1.ContainerStatus {
	all := map[string]corev1.ContainerStatus{}
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		all[status.Name] = status
	}
	return all
}

// waitForRestart waits until a container runs and has this number of restarts.
func waitForRestart(t *testing.T, pod *corev1.Pod, container string, times int32) corev1.ContainerStatus {
	t.Helper()
	var status corev1.ContainerStatus
	eventually(t, func(c *assert.CollectT) {
		status = containerStatuses(refresh(c, pod))[container]
		require.Equal(c, times, status.RestartCount)
		require.NotNil(c, status.State.Running)
		require.True(c, status.Ready)
	})
	return status
}

func requireOOMKilled(t require.TestingT, terminated *corev1.ContainerStateTerminated) {
	require.NotNil(t, terminated)
	require.Equal(t, "OOMKilled", terminated.Reason)
	require.Equal(t, int32(137), terminated.ExitCode)
	require.False(t, terminated.StartedAt.IsZero())
	require.False(t, terminated.FinishedAt.Before(&terminated.StartedAt))
	require.True(t, strings.HasPrefix(terminated.ContainerID, "containerd://"), "ID %q", terminated.ContainerID)
}

func requirePodCondition(
	t require.TestingT, pod *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason string,
) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
	require.GreaterOrEqual(t, i, 0, "condition %s", conditionType)
	require.Equal(t, status, pod.Status.Conditions[i].Status, "status of %s", conditionType)
	require.Equal(t, reason, pod.Status.Conditions[i].Reason, "reason of %s", conditionType)
}

// requestResize requests another amount of a resource for a container.
func requestResize(t *testing.T, pod *corev1.Pod, container string, name corev1.ResourceName, amount string) {
	t.Helper()
	refresh(t, pod)
	before := pod.DeepCopy()
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == container {
				containers[i].Resources.Requests[name] = resource.MustParse(amount)
			}
		}
	}
	require.NoError(t, env.client.SubResource("resize").Patch(t.Context(), pod, client.StrategicMergeFrom(before)))
}

// waitForResized waits until a container has the requested amount and its pod has no pending resize.
func waitForResized(t *testing.T, pod *corev1.Pod, container string, name corev1.ResourceName, amount string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		status := containerStatuses(refresh(c, pod))[container]
		require.NotNil(c, status.Resources)
		for _, list := range []corev1.ResourceList{status.Resources.Requests, status.AllocatedResources} {
			shown := list[name]
			require.Equal(c, amount, shown.String())
		}
		require.Equal(c, pod.Generation, pod.Status.ObservedGeneration)
		for _, condition := range pod.Status.Conditions {
			require.NotContains(c, condition.Type, "PodResize")
		}
	})
}
