package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
)

// What the simulated nodes do because of annotations, in e2e/cluster/manifests/simulation.

func TestSimulatedUsageOfAContainerComesBeforeThatOfItsPod(t *testing.T) {
	t.Parallel()
	pod := runPod(t, "kwok.x-k8s.io/usage-cpu", "70m", "kwok.x-k8s.io/usage-memory", "90Mi",
		"usage-cpu.kwok.x-k8s.io/"+longName, "300m", "usage-memory.kwok.x-k8s.io/"+longName, "200Mi",
		"usage-cpu.kwok.x-k8s.io/sidecar", "2", "usage-memory.kwok.x-k8s.io/sidecar", "2Gi")
	shows(t, pod, map[string]consumption{"app": {70, 90}, longName: {300, 200}, "sidecar": {2000, 2048}})

	annotate(t, pod, "kwok.x-k8s.io/usage-memory", "100Mi",
		"usage-cpu.kwok.x-k8s.io/app", "500m", "usage-cpu.kwok.x-k8s.io/"+longName, "40m",
		"usage-memory.kwok.x-k8s.io/sidecar", "20Mi")

	shows(t, pod, map[string]consumption{"app": {500, 100}, longName: {40, 200}, "sidecar": {2000, 20}})
}

// A container's name may have as many characters.
var longName = strings.Repeat("x", 63)

// consumption is in millicores and mebibytes.
type consumption struct {
	cpu    float64
	memory float64
}

// shows waits until the metrics API shows what each container of a pod uses. CPU time is
// divided by the time between two readings, which is not measured exactly.
func shows(t *testing.T, pod *corev1.Pod, containers map[string]consumption) {
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

// runPod runs a Deployment's pod of two containers and a sidecar, with annotations in pairs
// from the pod template, in a namespace of its own.
func runPod(t *testing.T, annotations ...string) *corev1.Pod {
	t.Helper()
	deployment := newDeployment(newNamespace(t), "app", 1)
	template := &deployment.Spec.Template
	template.Annotations = pairs(annotations)
	image := template.Spec.Containers[0].Image
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi"),
	}}
	template.Spec.Containers = []corev1.Container{
		{Name: "app", Image: image, Resources: resources},
		{Name: longName, Image: image, Resources: resources},
	}
	template.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: image},
		{Name: "sidecar", Image: image, Resources: resources, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	create(t, deployment)
	runsPodsOf(t, deployment, 1)
	return &podsIn(t, deployment.Namespace)[0]
}

// annotate sets annotations, in pairs, on a live pod.
func annotate(t *testing.T, pod *corev1.Pod, annotations ...string) {
	t.Helper()
	edit(t, pod, func(p *corev1.Pod) {
		for key, value := range pairs(annotations) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
		}
	})
}

func pairs(annotations []string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return all
}
