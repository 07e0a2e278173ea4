package pods_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"example.com/upright/internal/pods"
)

// specWithSidecar returns the spec of a pod with init containers of all kinds, in which only
// "sidecar" keeps running, and two containers.
func specWithSidecar() corev1.PodSpec {
	initContainer := func(name string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: policy}
	}
	return corev1.PodSpec{
		InitContainers: []corev1.Container{
			initContainer("init", nil),
			initContainer("sidecar", new(corev1.ContainerRestartPolicyAlways)),
			initContainer("init-on-failure", new(corev1.ContainerRestartPolicyOnFailure)),
			initContainer("init-never", new(corev1.ContainerRestartPolicyNever)),
		},
		Containers: []corev1.Container{
			{Name: "app"},
			{Name: "never-restarted", RestartPolicy: new(corev1.ContainerRestartPolicyNever)},
		},
	}
}

func TestSizableReturnsSidecarsAndContainers(t *testing.T) {
	t.Parallel()
	spec := specWithSidecar()
	before := spec.DeepCopy()
	var names []string
	for _, container := range pods.Sizable(&spec) {
		names = append(names, container.Name)
	}
	assert.Equal(t, []string{"sidecar", "app", "never-restarted"}, names)
	assert.Equal(t, *before, spec, "the pod must not change")
	assert.Empty(t, pods.Sizable(&corev1.PodSpec{}))
}

func TestEachSizableYieldsTheSameContainersWithoutACopy(t *testing.T) {
	t.Parallel()
	spec := specWithSidecar()
	want := pods.Sizable(&spec)
	var got []*corev1.Container
	for container := range pods.EachSizable(&spec) {
		got = append(got, container)
	}
	require.Len(t, got, len(want))
	for i := range want {
		assert.Equal(t, want[i], *got[i])
	}
	assert.Same(t, &spec.InitContainers[1], got[0])
	for count := range got { // A loop that ends early.
		yielded := 0
		for range pods.EachSizable(&spec) {
			yielded++
			if yielded > count {
				break
			}
		}
		assert.Equal(t, count+1, yielded)
	}
}

func TestIsSizableIsTrueForSidecarsAndContainers(t *testing.T) {
	t.Parallel()
	spec := specWithSidecar()
	for name, want := range map[string]bool{
		"app": true, "never-restarted": true, "sidecar": true,
		"init": false, "init-on-failure": false, "init-never": false,
		"unknown": false, "": false,
	} {
		assert.Equal(t, want, pods.IsSizable(&spec, name), name)
	}
}
