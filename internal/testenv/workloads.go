package testenv

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
)

// TemplateHash is the template hash of the pods of NewPod.
const TemplateHash = "5d8f7c9b6d"

// NewScaler returns a VerticalScaler with defaults.
func NewScaler(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployment},
	}
}

// NewDeployment returns a Deployment of a Helm chart.
func NewDeployment(namespace, name string) *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}
	labels := map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

// NewPod returns a pod with the given containers, as the controllers of Kubernetes create it for
// a Deployment.
func NewPod(namespace, deployment, suffix string, containers ...string) *corev1.Pod {
	replicaSet := deployment + "-" + TemplateHash
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: replicaSet + "-" + suffix,
		Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: TemplateHash, "app": deployment},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: "of-the-replicaset", Controller: new(true),
		}},
	}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, NewContainer(name))
	}
	return pod
}

// NewContainer returns a container that requests 100m CPU and 256Mi memory.
func NewContainer(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "web:1", Resources: corev1.ResourceRequirements{Requests: Amounts("100m", "256Mi")}}
}

// Amounts returns a resource list of CPU and memory.
func Amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// RunPod writes the status that the kubelet writes for a pod that is ready and has the
// resources of its spec, with further conditions.
func RunPod(t testing.TB, env *Environment, pod *corev1.Pod, conditions ...corev1.PodCondition) {
	t.Helper()
	Refresh(t, env, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(slices.Clone(conditions), corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: true, Resources: container.Resources.DeepCopy(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	require.NoError(t, env.Client.Status().Update(context.Background(), pod))
}

// OOMKillTime returns when OOMKill kills a container for the nth time: n seconds after a minute
// ago.
func OOMKillTime(n int) time.Time {
	return time.Now().Add(time.Duration(n) * time.Second).Add(-time.Minute)
}

// OOMKill writes the status that the kubelet writes when a container has run out of memory for
// the nth time and was restarted. The resources in the status stay the same.
func OOMKill(t testing.TB, env *Environment, pod *corev1.Pod, container string, n int) {
	t.Helper()
	Refresh(t, env, pod)
	end := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: pods.ReasonOOMKilled, FinishedAt: metav1.NewTime(OOMKillTime(n))}
	status := corev1.ContainerStatus{
		Name: container, RestartCount: int32(n),
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		LastTerminationState: corev1.ContainerState{Terminated: end},
	}
	index := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if index < 0 {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	} else {
		previous := &pod.Status.ContainerStatuses[index]
		status.Resources = previous.Resources
		if previous.State.Running != nil {
			end.StartedAt = previous.State.Running.StartedAt
		}
		*previous = status
	}
	require.NoError(t, env.Client.Status().Update(context.Background(), pod))
}
