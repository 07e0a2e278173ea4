package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

const (
	// resizeAnswer is the annotation of a pod that says what its node makes of a resize.
	resizeAnswer = "simulation.upright.example.com/resize"
	// restartedAt is the annotation of a pod template by which a Deployment is rolled out anew.
	restartedAt = "kubectl.kubernetes.io/restartedAt"
)

// charted is what the chart gives its container, and sized what a prompt scaler gives it: its
// limits are twice its requests.
var (
	charted = resourcesOf("100m", "128Mi", "200m", "256Mi")
	sized   = resourcesOf("300m", "400Mi", "600m", "800Mi")
)

func resourcesOf(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return corev1.ResourceRequirements{Requests: amounts(cpu, memory), Limits: amounts(cpuLimit, memoryLimit)}
}

// newPromptScaler returns a scaler that has pods follow at once, and of which the target is
// the same whatever is measured.
func newPromptScaler(namespace, deployment string) *autoscalingv1beta1.VerticalScaler {
	scaler := newScaler(namespace, deployment, deployment)
	recommendAlways(scaler, sized.Requests)
	atOnce := &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)}
	scaler.Spec.Behavior = &autoscalingv1beta1.Behavior{
		ScaleUp: atOnce, ScaleDown: atOnce, Rollout: &autoscalingv1beta1.RolloutRules{CooldownSeconds: ptr.To[int32](0)},
	}
	return scaler
}

// recommendAlways has a scaler recommend the same for every container, whatever is measured.
func recommendAlways(scaler *autoscalingv1beta1.VerticalScaler, requests corev1.ResourceList) {
	amounts := &autoscalingv1beta1.ResourceAmounts{CPU: requests.Cpu(), Memory: requests.Memory()}
	scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
		{ContainerName: "*", MinAllowed: amounts, MaxAllowed: amounts},
	}
}

// newChartedDeployment returns a Deployment that requests what the chart does, and whose nodes
// make of a resize what the answer says.
func newChartedDeployment(namespace string, replicas int32, answer string) *appsv1.Deployment {
	deployment := newDeployment(namespace, "web", replicas)
	template := &deployment.Spec.Template
	template.Annotations = map[string]string{resizeAnswer: answer}
	template.Spec.Containers[0].Resources = *charted.DeepCopy()
	return deployment
}

// becomesApplied waits until a scaler says how its target's pods stand.
func becomesApplied(
	t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, status metav1.ConditionStatus, reason string,
) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		requireCondition(c, refresh(c, scaler).Status.Conditions, "Applied", status, reason)
	})
}

// requireResources requires that each container of pods has these resources, and was never restarted.
func requireResources(t require.TestingT, want corev1.ResourceRequirements, pods []corev1.Pod) {
	for i := range pods {
		for _, container := range pods[i].Spec.Containers {
			require.True(t, equality.Semantic.DeepEqual(want, container.Resources), "%s of pod %s has %v and not %v",
				container.Name, pods[i].Name, container.Resources, want)
		}
		for _, status := range pods[i].Status.ContainerStatuses {
			require.Zero(t, status.RestartCount, "restarts of %s of pod %s", status.Name, pods[i].Name)
		}
	}
}

// runsResources waits until a Deployment runs just so many pods, all with these resources.
func runsResources(t *testing.T, deployment *appsv1.Deployment, want corev1.ResourceRequirements, count int) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		pods := ownedPods(c, deployment)
		require.Len(c, pods, count)
		requireResources(c, want, pods)
	})
}

// writtenForScalers returns how often the manager changed something of a namespace for a
// VerticalScaler.
func writtenForScalers(t *testing.T, namespace, what string) int {
	t.Helper()
	requests, err := auditedRequests()
	require.NoError(t, err)
	written := 0
	for i := range requests {
		r := &requests[i]
		if r.ofScaler() && r.writes() && r.ResponseStatus.Code < 300 &&
			r.ObjectRef.Namespace == namespace && r.permission().resource == what {
			written++
		}
	}
	return written
}

// replicaSetsOf returns the names of the ReplicaSets in a namespace: one for each rollout.
func replicaSetsOf(t *testing.T, namespace string) []string {
	t.Helper()
	var sets appsv1.ReplicaSetList
	require.NoError(t, env.client.List(t.Context(), &sets, client.InNamespace(namespace)))
	return names(sets.Items)
}
