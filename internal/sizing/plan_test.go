package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPlanResizeIsBlockedByQoSClassOrNode(t *testing.T) {
	t.Parallel()
	burstable := container("app", list("100m", "128Mi"), list("200m", "128Mi"))
	guaranteed := container("app", list("100m", "128Mi"), list("100m", "128Mi"))
	size := list("50m", "64Mi")
	changes := map[string]func(*corev1.Pod){
		"pod-level resources": func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{} },
		"container not running": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State.Running, pod.Status.ContainerStatuses[0].Resources = nil, nil
		},
		"status without resources": func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].Resources = nil
		},
		"Windows": func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows} },
		"Linux":   func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Linux} },
	}
	for name, test := range map[string]struct {
		current corev1.Container
		change  string
		size    autoscalingv1beta1.ContainerSizing
		changes bool
		blocked string
	}{
		"Burstable": {current: burstable, size: sizeOf("app", size, list("100m", "64Mi")), changes: true},
		"Burstable that would become Guaranteed": {current: burstable, size: sizeOf("app", size, size), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"Guaranteed": {current: guaranteed, size: sizeOf("app", size, size), changes: true},
		"Guaranteed that would become Burstable": {current: guaranteed, size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"BestEffort": {current: container("app", nil, nil), size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonQoSClassFixed},
		"pod with pod-level resources": {current: burstable, change: "pod-level resources", size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonPodLevelResources},
		"container not running yet": {current: burstable, change: "container not running", size: sizeOf("app", size, nil), changes: true},
		"node without support for resize": {current: burstable, change: "status without resources", size: sizeOf("app", size, nil),
			changes: true, blocked: autoscalingv1beta1.ReasonResizeUnsupported},
		"Windows pod": {current: burstable, change: "Windows", size: sizeOf("app", size, nil), changes: true,
			blocked: autoscalingv1beta1.ReasonResizeUnsupported},
		"Linux pod": {current: burstable, change: "Linux", size: sizeOf("app", size, nil), changes: true},
		"no change": {current: burstable, size: sizeOf("app", list("100m", ""), nil)},
		"no change on a node without support for resize": {current: burstable, change: "status without resources", size: sizeOf("app", list("100m", ""), nil)},
		"request above the limit": {current: burstable, size: sizeOf("app", list("300m", ""), nil),
			blocked: autoscalingv1beta1.ReasonLimitTooLow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.current)
			if change := changes[test.change]; change != nil {
				change(pod)
			}
			plan := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{test.size})
			assert.Equal(t, test.changes, len(plan.Containers) > 0)
			assert.Equal(t, test.blocked, plan.Blocked)
			assert.False(t, Restarts(pod, plan.Containers))
		})
	}
}

func TestPlanResizeRestartsContainerIfResizePolicyRequiresIt(t *testing.T) {
	t.Parallel()
	cpu, memory := list("50m", ""), list("", "64Mi")
	for name, test := range map[string]struct {
		resource corev1.ResourceName
		policy   corev1.ResourceResizeRestartPolicy
		size     autoscalingv1beta1.ContainerSizing
		restarts bool
	}{
		"memory restarts and memory changes":                  {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", memory, nil), true},
		"memory restarts and its limit changes":               {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", nil, list("", "1Gi")), true},
		"memory restarts and CPU changes":                     {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("app", cpu, nil), false},
		"CPU restarts and CPU changes":                        {corev1.ResourceCPU, corev1.RestartContainer, sizeOf("app", cpu, nil), true},
		"memory does not restart and memory changes":          {corev1.ResourceMemory, corev1.NotRequired, sizeOf("app", memory, nil), false},
		"memory restarts in a container that does not change": {corev1.ResourceMemory, corev1.RestartContainer, sizeOf("web", memory, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
			app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: test.resource, RestartPolicy: test.policy}}
			sizes := []autoscalingv1beta1.ContainerSizing{test.size}

			pod := podOf(app, container("web", list("100m", "128Mi"), nil))
			plan := PlanResize(pod, sizes)
			assert.Len(t, plan.Containers, 1)
			assert.Equal(t, test.restarts, Restarts(pod, plan.Containers))

			pod = withSidecar(podOf(container("web", list("100m", "128Mi"), nil)), app)
			plan = PlanResize(pod, sizes)
			assert.Equal(t, test.restarts, Restarts(pod, plan.Containers), "as a sidecar")
			assert.Empty(t, plan.Blocked, "as a sidecar")
		})
	}
}

func TestPlanResizeDoesNotRestartContainerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), nil)
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	pod, size := podOf(app), []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("50m", ""), nil)}
	assert.True(t, Restarts(pod, PlanResize(pod, size).Containers))
	pod.Status.ContainerStatuses = nil
	assert.False(t, Restarts(pod, PlanResize(pod, size).Containers))
}

// TestMemoryOfAStoppedContainerDoesNotChange shows that memory waits until the container runs: the
// kubelet would report the new memory without putting it in force.
func TestMemoryOfAStoppedContainerDoesNotChange(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
	for name, test := range map[string]struct {
		size autoscalingv1beta1.ContainerSizing
		want corev1.ResourceList // Requests of the resize.
	}{
		"CPU and memory up":   {sizeOf("app", list("150m", "256Mi"), list("300m", "512Mi")), list("150m", "128Mi")},
		"CPU and memory down": {sizeOf("app", list("50m", "64Mi"), list("100m", "128Mi")), list("50m", "128Mi")},
		"memory only":         {sizeOf("app", list("", "256Mi"), list("", "512Mi")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(app, container("log", list("100m", ""), nil))
			due := []autoscalingv1beta1.ContainerSizing{test.size}
			pod.Status.Phase = corev1.PodRunning
			running := PlanResize(pod, due).Containers
			require.Len(t, running, 1)
			assert.Equal(t, memory.amountIn(test.size.Requests), memory.amountIn(running[0].Resources.Requests), "while it runs")

			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			stopped := PlanResize(pod, due).Containers
			if test.want == nil {
				assert.Empty(t, stopped)
				return
			}
			require.Len(t, stopped, 1)
			assertAmounts(t, test.want, stopped[0].Resources.Requests, "requests")
			assert.Equal(t, memory.amountIn(app.Resources.Limits), memory.amountIn(stopped[0].Resources.Limits))
		})
	}
}

func TestMemoryOfAPodThatHasNotStartedChanges(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", "128Mi"), nil))
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, nil
	assert.Len(t, PlanResize(pod, []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("", "64Mi"), nil)}).Containers, 1)
}
