package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// podOf returns a running pod whose status has the resources of its spec.
func podOf(containers ...corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
	for i := range containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, runningStatus(&containers[i]))
	}
	pod.Status.QOSClass = qosClassAfter(pod, nil)
	return pod
}

// runningStatus returns the status of a running container that has the resources of its spec.
func runningStatus(c *corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Resources: c.Resources.DeepCopy(), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
}

// withSidecar adds a sidecar to a pod.
func withSidecar(pod *corev1.Pod, sidecar corev1.Container) *corev1.Pod {
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, runningStatus(&sidecar))
	pod.Status.QOSClass = qosClassAfter(pod, nil)
	return pod
}

func sizeOf(container string, requests, limits corev1.ResourceList) autoscalingv1beta1.ContainerSizing {
	return autoscalingv1beta1.ContainerSizing{ContainerName: container, Requests: requests, Limits: limits}
}

func TestResizedReturnsContainersThatChange(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "128Mi"), list("200m", "256Mi"))
	unlimited := container("app", list("100m", "128Mi"), nil)
	zeroLimit := container("app", nil, list("0", ""))
	for name, test := range map[string]struct {
		current corev1.Container
		size    autoscalingv1beta1.ContainerSizing
		want    []corev1.Container
	}{
		"requests and limits": {app, sizeOf("app", list("300m", "64Mi"), list("600m", "128Mi")),
			[]corev1.Container{container("app", list("300m", "64Mi"), list("600m", "128Mi"))}},
		"requests only": {app, sizeOf("app", list("50m", "64Mi"), nil),
			[]corev1.Container{container("app", list("50m", "64Mi"), list("200m", "256Mi"))}},
		"one resource": {app, sizeOf("app", list("50m", ""), list("100m", "")),
			[]corev1.Container{container("app", list("50m", "128Mi"), list("100m", "256Mi"))}},
		"limit for a container without a limit": {unlimited, sizeOf("app", list("50m", ""), list("100m", "")),
			[]corev1.Container{container("app", list("50m", "128Mi"), list("100m", ""))}},
		"same amounts in another notation": {app, sizeOf("app", list("0.1", "131072Ki"), list("0.2", "268435456")), nil},
		"request above the limit":          {app, sizeOf("app", list("201m", ""), nil), nil},
		"request above the new limit":      {app, sizeOf("app", list("201m", ""), list("200m", "")), nil},
		"request equal to the limit": {app, sizeOf("app", list("200m", ""), nil),
			[]corev1.Container{container("app", list("200m", "128Mi"), list("200m", "256Mi"))}},
		"request with a limit of 0": {zeroLimit, sizeOf("app", list("1m", ""), nil), nil},
		"size of another container": {app, sizeOf("web", list("50m", "64Mi"), nil), nil},
		"empty size":                {app, sizeOf("app", nil, nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(test.current)
			before := pod.DeepCopy()
			got := resized(pod, []autoscalingv1beta1.ContainerSizing{test.size})
			assert.Len(t, got, len(test.want))
			for i := range got {
				assertAmounts(t, test.want[i].Resources.Requests, got[i].Resources.Requests, "requests")
				assertAmounts(t, test.want[i].Resources.Limits, got[i].Resources.Limits, "limits")
			}
			assert.Equal(t, before, pod, "the pod must not change")
		})
	}
}

func TestResizedSkipsOnlyTheContainerWithAnInvalidSize(t *testing.T) {
	t.Parallel()
	pod := withSidecar(podOf(container("app", list("1", ""), nil), container("web", list("1", ""), list("1", ""))),
		container("proxy", list("1", ""), nil))
	var names []string
	for _, changed := range resized(pod, []autoscalingv1beta1.ContainerSizing{
		sizeOf("app", list("2", ""), nil), sizeOf("web", list("2", ""), nil), sizeOf("proxy", list("2", ""), nil),
	}) {
		names = append(names, changed.Name)
	}
	assert.Equal(t, []string{"proxy", "app"}, names)
}

func TestQOSClassMatchesKubernetes(t *testing.T) {
	t.Parallel()
	equal := container("app", list("1", "1Gi"), list("1", "1Gi"))
	other := container("web", list("1000m", "1024Mi"), list("1", "1Gi"))
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want corev1.PodQOSClass
	}{
		"no resources":                                      {podOf(container("app", nil, nil)), corev1.PodQOSBestEffort},
		"amounts of 0":                                      {podOf(container("app", list("0", "0"), list("0", "0"))), corev1.PodQOSBestEffort},
		"requests equal limits":                             {podOf(equal, other), corev1.PodQOSGuaranteed},
		"request equals limit, CPU only":                    {podOf(container("app", list("1", ""), list("1", ""))), corev1.PodQOSBurstable},
		"request only":                                      {podOf(container("app", list("1m", ""), nil)), corev1.PodQOSBurstable},
		"limit above the request":                           {podOf(container("app", list("1", "1Gi"), list("1", "2Gi"))), corev1.PodQOSBurstable},
		"requests equal limits except in one container":     {podOf(equal, container("web", nil, nil)), corev1.PodQOSBurstable},
		"requests equal limits except in a sidecar":         {withSidecar(podOf(equal), container("proxy", nil, nil)), corev1.PodQOSBurstable},
		"requests equal limits in containers and a sidecar": {withSidecar(podOf(equal), other), corev1.PodQOSGuaranteed},
		"resources in a sidecar only":                       {withSidecar(podOf(container("app", nil, nil)), other), corev1.PodQOSBurstable},
	} {
		assert.Equal(t, test.want, qosClassAfter(test.pod, nil), name)
	}
}

func TestQOSClassAfterUsesChangedContainers(t *testing.T) {
	t.Parallel()
	pod := withSidecar(podOf(container("app", list("1", "1Gi"), list("2", "1Gi"))), container("proxy", list("1", "1Gi"), list("1", "1Gi")))
	equal := container("app", list("2", "1Gi"), list("2", "1Gi"))
	assert.Equal(t, corev1.PodQOSBurstable, qosClassAfter(pod, nil))
	assert.Equal(t, corev1.PodQOSGuaranteed, qosClassAfter(pod, []corev1.Container{equal}))
	assert.Equal(t, corev1.PodQOSBurstable, qosClassAfter(pod, []corev1.Container{equal, container("proxy", list("1", "1Gi"), nil)}))
}
