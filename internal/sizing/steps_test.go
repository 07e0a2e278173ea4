package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// step is a step of the resize of container "app".
type step struct {
	requests, limits corev1.ResourceList
	lowersMemory     bool
}

// stepsOf does all steps of a resize of a pod, and returns them.
func stepsOf(t *testing.T, pod *corev1.Pod, size autoscalingv1beta1.ContainerSizing) []step {
	t.Helper()
	var steps []step
	for {
		changed, lowers := NextStep(pod, PlanResize(pod, []autoscalingv1beta1.ContainerSizing{size}).Containers)
		if len(changed) == 0 {
			return steps
		}
		require.Less(t, len(steps), 2, "a resize has at most two steps")
		require.Len(t, changed, 1)
		steps = append(steps, step{changed[0].Resources.Requests, changed[0].Resources.Limits, lowers})
		pod.Spec.Containers[0].Resources = changed[0].Resources
		pod.Status.ContainerStatuses[0].Resources = changed[0].Resources.DeepCopy()
	}
}

func TestMemoryLimitsAreLoweredLastAndAlone(t *testing.T) {
	t.Parallel()
	burstable := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
	guaranteed := container("app", list("100m", "128Mi"), list("100m", "128Mi"))
	toGuaranteed := container("app", list("1", "1Gi"), list("2", "1Gi"))
	restarted := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
	restarted.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for name, test := range map[string]struct {
		current corev1.Container
		size    autoscalingv1beta1.ContainerSizing
		want    []step
	}{
		"all up": {burstable, sizeOf("app", list("150m", "256Mi"), list("300m", "512Mi")),
			[]step{{list("150m", "256Mi"), list("300m", "512Mi"), false}}},
		"CPU up, memory down": {burstable, sizeOf("app", list("150m", "64Mi"), list("300m", "128Mi")), []step{
			{list("150m", "128Mi"), list("300m", "256Mi"), false}, {list("150m", "64Mi"), list("300m", "128Mi"), true},
		}},
		"CPU down, memory up": {burstable, sizeOf("app", list("50m", "256Mi"), list("100m", "512Mi")),
			[]step{{list("50m", "256Mi"), list("100m", "512Mi"), false}}},
		"all down": {burstable, sizeOf("app", list("50m", "64Mi"), list("100m", "128Mi")), []step{
			{list("50m", "128Mi"), list("100m", "256Mi"), false}, {list("50m", "64Mi"), list("100m", "128Mi"), true},
		}},
		"memory down": {burstable, sizeOf("app", list("", "64Mi"), list("", "128Mi")),
			[]step{{list("100m", "64Mi"), list("200m", "128Mi"), true}}},
		"memory request down": {burstable, sizeOf("app", list("150m", "64Mi"), nil),
			[]step{{list("150m", "64Mi"), list("200m", "256Mi"), false}}},
		"memory request up, limit down": {burstable, sizeOf("app", list("", "192Mi"), list("", "192Mi")), []step{
			{list("100m", "192Mi"), list("200m", "256Mi"), false}, {list("100m", "192Mi"), list("200m", "192Mi"), true},
		}},
		"first memory limit": {container("app", list("100m", "128Mi"), nil), sizeOf("app", list("150m", ""), list("", "128Mi")), []step{
			{list("150m", "128Mi"), nil, false}, {list("150m", "128Mi"), list("", "128Mi"), true},
		}},
		"Guaranteed": {guaranteed, sizeOf("app", list("150m", "64Mi"), list("150m", "64Mi")), []step{
			{list("150m", "128Mi"), list("150m", "128Mi"), false}, {list("150m", "64Mi"), list("150m", "64Mi"), true},
		}},
		"a first step that would become Guaranteed": {toGuaranteed, sizeOf("app", list("2", "512Mi"), list("2", "768Mi")),
			[]step{{list("2", "512Mi"), list("2", "768Mi"), true}}},
		"restart for memory": {restarted, sizeOf("app", list("150m", "64Mi"), list("300m", "128Mi")),
			[]step{{list("150m", "64Mi"), list("300m", "128Mi"), false}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := stepsOf(t, podOf(test.current), test.size)
			require.Len(t, steps, len(test.want))
			for i, want := range test.want {
				assertAmounts(t, want.requests, steps[i].requests, "requests")
				assertAmounts(t, want.limits, steps[i].limits, "limits")
				assert.Equal(t, want.lowersMemory, steps[i].lowersMemory)
			}
		})
	}
}

func TestPartChangesOneResource(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", "128Mi"), list("200m", "256Mi")), container("log", list("100m", "128Mi"), nil))
	changed := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{
		sizeOf("app", list("150m", "256Mi"), list("300m", "512Mi")), sizeOf("log", list("", "256Mi"), nil),
	}).Containers
	cpuPart, memoryPart := Part(pod, changed, corev1.ResourceCPU), Part(pod, changed, corev1.ResourceMemory)
	require.Len(t, cpuPart, 1)
	assertAmounts(t, list("150m", "128Mi"), cpuPart[0].Resources.Requests, "requests")
	assertAmounts(t, list("300m", "256Mi"), cpuPart[0].Resources.Limits, "limits")
	require.Len(t, memoryPart, 2)
	assertAmounts(t, list("100m", "256Mi"), memoryPart[0].Resources.Requests, "requests")
	assertAmounts(t, list("200m", "512Mi"), memoryPart[0].Resources.Limits, "limits")
}

func TestPartKeepsTheQoSClass(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", "128Mi"), list("200m", "128Mi")))
	changed := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("200m", "256Mi"), list("200m", "512Mi"))}).Containers
	require.Len(t, changed, 1)
	assert.Empty(t, Part(pod, changed, corev1.ResourceCPU), "it would be Guaranteed")
	assert.Len(t, Part(pod, changed, corev1.ResourceMemory), 1)
}

func TestKeepMemoryPutsBackWhatTheNodeCouldNotLower(t *testing.T) {
	t.Parallel()
	always := func(string) bool { return true }
	pod := podOf(container("app", list("100m", "64Mi"), list("200m", "128Mi")))
	pod.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("200m", "256Mi")}
	require.True(t, LowersMemory(pod))
	size := sizeOf("app", list("150m", ""), list("300m", ""))
	changed := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{size}).Containers

	kept, keeps := KeepMemory(pod, changed, true, always)
	require.Len(t, kept, 1)
	assert.True(t, keeps)
	assertAmounts(t, list("150m", "128Mi"), kept[0].Resources.Requests, "requests")
	assertAmounts(t, list("300m", "256Mi"), kept[0].Resources.Limits, "limits")

	kept, keeps = KeepMemory(pod, nil, true, func(string) bool { return false })
	assert.Empty(t, kept, "memory that is not sized is left alone")
	assert.False(t, keeps)

	pod.Spec.Containers[0].Resources = *pod.Status.ContainerStatuses[0].Resources
	assert.False(t, LowersMemory(pod))
	changed = PlanResize(pod, []autoscalingv1beta1.ContainerSizing{sizeOf("app", list("", "64Mi"), list("", "128Mi"))}).Containers
	require.Len(t, changed, 1)
	kept, keeps = KeepMemory(pod, changed, false, always)
	assert.Empty(t, kept, "it is not lowered again")
	assert.True(t, keeps)
}

func TestKeepMemoryRaisesTheRequest(t *testing.T) {
	t.Parallel()
	always := func(string) bool { return true }
	pod := podOf(container("app", list("100m", "64Mi"), list("200m", "256Mi")))
	pod.Status.ContainerStatuses[0].Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	size := sizeOf("app", list("", "96Mi"), list("", "128Mi"))
	changed := PlanResize(pod, []autoscalingv1beta1.ContainerSizing{size}).Containers

	kept, keeps := KeepMemory(pod, changed, false, always)
	assert.True(t, keeps)
	require.Len(t, kept, 1)
	assertAmounts(t, list("100m", "96Mi"), kept[0].Resources.Requests, "requests")
	assertAmounts(t, list("200m", "256Mi"), kept[0].Resources.Limits, "limits")

	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("100m", "96Mi"), Limits: list("200m", "128Mi")}
	kept, keeps = KeepMemory(pod, nil, true, always)
	assert.True(t, keeps)
	require.Len(t, kept, 1)
	assertAmounts(t, list("100m", "96Mi"), kept[0].Resources.Requests, "requests")
	assertAmounts(t, list("200m", "256Mi"), kept[0].Resources.Limits, "limits")
}

func TestKeepMemoryDoesNotRemoveALimit(t *testing.T) {
	t.Parallel()
	pod := podOf(container("app", list("100m", "64Mi"), list("", "128Mi")))
	pod.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: list("100m", "64Mi")}
	require.True(t, LowersMemory(pod))
	kept, keeps := KeepMemory(pod, nil, true, func(string) bool { return true })
	assert.Empty(t, kept, "the API server would ignore the request")
	assert.False(t, keeps)
}

func TestIsSizedFollowsThePolicies(t *testing.T) {
	t.Parallel()
	spec := &autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{
		{ContainerName: "off", Mode: autoscalingv1beta1.ContainerModeOff},
		{ContainerName: "cpu", ControlledResources: []autoscalingv1beta1.ControlledResource{"cpu"}},
	}}
	assert.True(t, IsSized(spec, "app", corev1.ResourceMemory))
	assert.False(t, IsSized(spec, "off", corev1.ResourceMemory))
	assert.False(t, IsSized(spec, "cpu", corev1.ResourceMemory))
	assert.True(t, IsSized(spec, "cpu", corev1.ResourceCPU))
}
