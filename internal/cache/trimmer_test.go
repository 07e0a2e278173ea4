package cache_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

func TestTrimKeepsIdentityOfDeploymentMetadata(t *testing.T) {
	t.Parallel()
	full := metav1.ObjectMeta{
		Name: "web", GenerateName: "w", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.Now(), DeletionTimestamp: new(metav1.Now()), DeletionGracePeriodSeconds: new(int64(1)),
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{Name: "owner", UID: "u2"}},
		Finalizers:      []string{"f"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm"}},
	}
	deployment := metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	out, err := new(cache.Trimmer).Trim(&metav1.PartialObjectMetadata{TypeMeta: deployment, ObjectMeta: full})
	require.NoError(t, err)
	assert.Equal(t, &metav1.PartialObjectMetadata{
		TypeMeta: deployment,
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 3,
			DeletionTimestamp: full.DeletionTimestamp, OwnerReferences: full.OwnerReferences,
		},
	}, out)
}

func TestTrimDropsOnlyManagedFieldsOfWholeObjects(t *testing.T) {
	t.Parallel()
	d := testenv.NewDeployment("default", "web")
	want := d.DeepCopy()
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm"}}
	out, err := new(cache.Trimmer).Trim(d)
	require.NoError(t, err)
	assert.Equal(t, want, out)
}

func TestTrimReturnsOtherValuesUnchanged(t *testing.T) {
	t.Parallel()
	out, err := new(cache.Trimmer).Trim("text")
	require.NoError(t, err)
	assert.Equal(t, "text", out)
}

// terminatedState returns what Trim keeps of the state of a container that ended.
func terminatedState(reason string, second int64) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, StartedAt: metav1.Unix(1, 0), FinishedAt: metav1.Unix(second, 0), ExitCode: 137,
	}}
}

// fullPod returns a pod with more fields than a controller reads.
func fullPod() *corev1.Pod {
	pod := testenv.NewPod("one", "web", "aaaaa", "app", "log")
	pod.UID, pod.ResourceVersion, pod.CreationTimestamp = "u1", "7", metav1.Unix(1, 0)
	pod.Generation = 3
	pod.DeletionTimestamp = new(metav1.Unix(2, 0))
	pod.GenerateName, pod.Annotations, pod.Finalizers = "web-", map[string]string{"a": "b"}, []string{"f"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	sidecar := testenv.NewContainer("proxy")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{testenv.NewContainer("migrate"), sidecar}
	pod.Spec.NodeName, pod.Spec.Volumes = "node", []corev1.Volume{{Name: "v"}}
	pod.Spec.Overhead = testenv.Amounts("10m", "10Mi")
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: testenv.Amounts("4", "4Gi")}
	app := &pod.Spec.Containers[0]
	app.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	app.Resources.Limits = testenv.Amounts("1", "1Gi")
	app.Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: "RestartContainer"}}
	terminated := func(reason string, second int64) corev1.ContainerState {
		state := terminatedState(reason, second)
		state.Terminated.ContainerID, state.Terminated.Message = "c", "killed"
		return state
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, LastProbeTime: metav1.Unix(3, 0)}, {Type: corev1.PodInitialized}},
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "migrate", State: terminated("Completed", 1)},
			{
				Name: "proxy", Image: "web:1", RestartCount: 1, LastTerminationState: terminated("OOMKilled", 3),
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
					Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container",
				}},
			},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", RestartCount: 2, State: terminated("OOMKilled", 5), LastTerminationState: terminated("OOMKilled", 4)},
			{
				Name: "log", LastTerminationState: terminated("Error", 4), RestartCount: 1,
				State:     corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(5, 0)}},
				Resources: &corev1.ResourceRequirements{Requests: testenv.Amounts("1", "1Gi")},
			},
		},
	}
	return pod
}

// trimmedPod returns what Trim keeps of a fullPod.
func trimmedPod() *corev1.Pod {
	full := fullPod()
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: testenv.Amounts("100m", "256Mi")}}
	}
	app, sidecar := container("app"), container("proxy")
	app.Resources.Limits, app.ResizePolicy = testenv.Amounts("1", "1Gi"), full.Spec.Containers[0].ResizePolicy
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: "one", UID: "u1", ResourceVersion: "7", Generation: 3,
			CreationTimestamp: metav1.Unix(1, 0), DeletionTimestamp: new(metav1.Unix(2, 0)),
			OwnerReferences: full.OwnerReferences,
			Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: testenv.TemplateHash},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("migrate"), sidecar},
			Containers:     []corev1.Container{app, container("log")},
			NodeName:       "node",
			Overhead:       testenv.Amounts("10m", "10Mi"),
			Resources:      &corev1.ResourceRequirements{},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "migrate"}, {
				Name: "proxy", RestartCount: 1, LastTerminationState: terminatedState("OOMKilled", 3),
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			}},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name: "app", RestartCount: 2,
					State: terminatedState("OOMKilled", 5), LastTerminationState: terminatedState("OOMKilled", 4),
				},
				{Name: "log", RestartCount: 1, LastTerminationState: terminatedState("Error", 4),
					State:     corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(5, 0)}},
					Resources: &corev1.ResourceRequirements{Requests: testenv.Amounts("1", "1Gi")}},
			},
		},
	}
}

func TestTrimKeepsOnlyThePodFieldsThatAreRead(t *testing.T) {
	t.Parallel()
	out, err := new(cache.Trimmer).Trim(fullPod())
	require.NoError(t, err)
	assert.Equal(t, trimmedPod(), out)
	again, err := new(cache.Trimmer).Trim(out)
	require.NoError(t, err)
	assert.Equal(t, trimmedPod(), again, "a second Trim changes nothing")
}

func TestTrimKeepsWhatDecidesWhichPodsANodeTakes(t *testing.T) {
	t.Parallel()
	out, err := new(cache.Trimmer).Trim(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "3", Labels: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.0.0.0/24", Unschedulable: true, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: testenv.Amounts("9", "9Gi"), Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	})
	require.NoError(t, err)
	assert.Equal(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "3", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
	}, out)
}

func TestTrimmedPodsShareEqualRequestsAndHashLabels(t *testing.T) {
	t.Parallel()
	trimmer := new(cache.Trimmer)
	trimmed := func(cpu string) *corev1.Pod {
		pod := fullPod()
		pod.Spec.Containers[0].Resources.Requests = testenv.Amounts(cpu, "256Mi")
		out, err := trimmer.Trim(pod)
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
