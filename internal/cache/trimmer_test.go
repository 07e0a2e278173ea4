package cache

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// fullPod is a pod with more than is read of one.
func fullPod() *corev1.Pod {
	pod := newPod("one", "web", "aaaaa", "app", "log")
	pod.UID, pod.ResourceVersion, pod.CreationTimestamp = "u1", "7", metav1.Unix(1, 0)
	pod.DeletionTimestamp = new(metav1.Unix(2, 0))
	pod.GenerateName, pod.Annotations, pod.Finalizers = "web-", map[string]string{"a": "b"}, []string{"f"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	sidecar := newContainer("proxy")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{newContainer("migrate"), sidecar}
	pod.Spec.NodeName, pod.Spec.Volumes = "node", []corev1.Volume{{Name: "v"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	pod.Spec.Containers[0].Resources.Limits = amounts("1", "1Gi")
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: "RestartContainer"}}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("4", "4Gi")}
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	terminated := func(reason string, second int64) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, FinishedAt: metav1.Unix(second, 0), ExitCode: 137, ContainerID: "c",
		}}
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, LastProbeTime: metav1.Unix(3, 0)}, {Type: corev1.PodInitialized}},
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "migrate", State: terminated("Completed", 1)},
			{Name: "proxy", Image: "web:1", LastTerminationState: terminated("OOMKilled", 3)},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", RestartCount: 2, State: terminated("OOMKilled", 5), LastTerminationState: terminated("OOMKilled", 4)},
			{Name: "log", LastTerminationState: terminated("Error", 4), Resources: &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}},
		},
	}
	return pod
}

func TestTrimKeepsOfAPodWhatIsReadAndDropsTheRest(t *testing.T) {
	t.Parallel()
	full := fullPod()
	trimmed := func(name string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{
			Name: name, RestartPolicy: restart, Resources: corev1.ResourceRequirements{Requests: amounts("100m", "256Mi")},
		}
	}
	app := trimmed("app", nil)
	app.Resources.Limits, app.ResizePolicy = amounts("1", "1Gi"), full.Spec.Containers[0].ResizePolicy
	killedAt := func(name string, second int64) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.Unix(second, 0)},
		}}
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: "one", UID: "u1", ResourceVersion: "7",
			CreationTimestamp: metav1.Unix(1, 0), DeletionTimestamp: new(metav1.Unix(2, 0)),
			OwnerReferences: full.OwnerReferences, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: templateHash},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{trimmed("migrate", nil), trimmed("proxy", new(corev1.ContainerRestartPolicyAlways))},
			Containers:     []corev1.Container{app, trimmed("log", nil)},
			Resources:      &corev1.ResourceRequirements{},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "migrate"}, killedAt("proxy", 3)},
			ContainerStatuses: []corev1.ContainerStatus{
				killedAt("app", 5), {Name: "log", Resources: &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}},
			},
		},
	}
	out, err := new(Trimmer).Trim(full)
	require.NoError(t, err)
	assert.Equal(t, want, out)
	again, err := new(Trimmer).Trim(out)
	require.NoError(t, err)
	assert.Equal(t, want, again, "a trimmed pod stays as it is")
}

func TestTrimKeepsOfANodeWhatItHasToGive(t *testing.T) {
	t.Parallel()
	out, err := new(Trimmer).Trim(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "3", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{Capacity: amounts("9", "9Gi"), Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	})
	require.NoError(t, err)
	assert.Equal(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "3"},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
	}, out)
}

// unscheduled has a pod find no node, but the one for which it may be nominated.
func unscheduled(nominated string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.NominatedNodeName = nominated
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		})
	}
}

func TestPodOfDeploymentLetsThroughWhatConcernsAScaler(t *testing.T) {
	t.Parallel()
	of := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := fullPod()
		pod.DeletionTimestamp = nil
		change(pod)
		out, err := new(Trimmer).Trim(pod)
		require.NoError(t, err)
		return out.(*corev1.Pod)
	}
	pod, bare := of(func(*corev1.Pod) {}), of(func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	let := podOfDeployment()
	assert.True(t, let.Create(event.CreateEvent{Object: pod}))
	assert.True(t, let.Delete(event.DeleteEvent{Object: pod}))
	assert.False(t, let.Create(event.CreateEvent{Object: bare}))
	assert.False(t, let.Delete(event.DeleteEvent{Object: bare}))
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":             {func(*corev1.Pod) {}, false},
		"another version":     {func(pod *corev1.Pod) { pod.ResourceVersion = "8" }, false},
		"a label":             {func(pod *corev1.Pod) { pod.Labels["a"] = "b" }, false},
		"it is ready":         {func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = "True" }, true},
		"it is probed":        {func(pod *corev1.Pod) { pod.Status.Conditions[0].LastProbeTime = metav1.Unix(4, 0) }, false},
		"it is initialized":   {func(pod *corev1.Pod) { pod.Status.Conditions[1].Status = "True" }, false},
		"it runs":             {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }, true},
		"it ends":             {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, true},
		"it is deleted":       {func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Unix(2, 0)) }, true},
		"it was created anew": {func(pod *corev1.Pod) { pod.UID = "u2" }, true},
		"it was resized":      {func(pod *corev1.Pod) { pod.Spec.Containers[1].Resources.Requests = amounts("1", "1Gi") }, true},
		"another limit":       {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = amounts("2", "2Gi") }, true},
		"the resize is done": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[1].Resources.Requests = amounts("2", "2Gi")
		}, true},
		"killed": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[1].LastTerminationState.Terminated.Reason = "OOMKilled"
		}, true},
		"killed again": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Unix(9, 0) }, true},
		"started after a kill": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].LastTerminationState = pod.Status.ContainerStatuses[0].State
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{}
		}, false},
		"it finds no node":           {unscheduled(""), true},
		"it is nominated for a node": {unscheduled("node"), false},
		"it has found a node": {func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		}, false},
		"restarted for another fault": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[1].RestartCount++ }, false},
	} {
		after := of(test.change)
		assert.Equal(t, test.want, let.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: after}), name)
	}
}

func TestAPodsUpdateThatConcernsNobodyMakesNoPass(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var passes passCounter
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &meter{}}, passes.use)
	scalerIs(t, scaler, isFalse, "NoSamples")
	require.Eventually(t, func() bool { return passes.over(scaler) >= 2 }, soon, often, "the second is for the status")
	before := passes.over(scaler)
	edit(t, pod, func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} })
	pod.Status.PodIP, pod.Status.Message = "10.0.0.1", "all is well"
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	assert.Never(t, func() bool { return passes.over(scaler) > before }, aWhile, often)
	killed(t, pod, "app", 1)
	require.Eventually(t, func() bool { return passes.over(scaler) > before }, soon, often)
}

func TestPodsThatRequestTheSameShareWhatTheyRequest(t *testing.T) {
	t.Parallel()
	trimmer := new(trimmer)
	trimmed := func(cpu string) *corev1.Pod {
		pod := fullPod()
		pod.Spec.Containers[0].Resources.Requests = amounts(cpu, "256Mi")
		out, err := trimmer.trim(pod)
		require.NoError(t, err)
		return out.(*corev1.Pod)
	}
	requests := func(pod *corev1.Pod) uintptr {
		return reflect.ValueOf(pod.Spec.Containers[0].Resources.Requests).Pointer()
	}
	labels := func(pod *corev1.Pod) uintptr { return reflect.ValueOf(pod.Labels).Pointer() }
	one, same, other := trimmed("100m"), trimmed("0.1"), trimmed("200m")
	assert.Equal(t, requests(one), requests(same))
	assert.Equal(t, labels(one), labels(other))
	assert.NotEqual(t, requests(one), requests(other))
	assert.Equal(t, "200m", other.Spec.Containers[0].Resources.Requests.Cpu().String())
}

func TestASharerForgetsRatherThanGrowForGood(t *testing.T) {
	t.Parallel()
	var sharer sharer[int, *int]
	for i := range 2*shareable + 1 {
		assert.Equal(t, i, *sharer.of(i, func() *int { return &i }))
	}
	assert.Len(t, sharer.known, 1)
}
