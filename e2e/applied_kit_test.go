package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// annotationRestartedAt is the pod template annotation that starts a rollout.
const annotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// templateResources are the container's resources in the chart and in newWebDeployment.
// recommendedResources are the resources that newImmediateScaler gives such a container: its limits
// are twice its requests.
var (
	templateResources    = resourcesOf("100m", "128Mi", "200m", "256Mi")
	recommendedResources = resourcesOf("300m", "400Mi", "600m", "800Mi")
)

func resourcesOf(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: resourceList(cpu, memory), Limits: resourceList(cpuLimit, memoryLimit)}
}

func resourceList(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

// newImmediateScaler returns a scaler that applies recommendedResources at once.
func newImmediateScaler(namespace, deployment string) *autoscalingv1beta1.VerticalScaler {
	scaler := newScaler(namespace, deployment, deployment)
	recommendFixed(scaler, recommendedResources.Requests)
	immediate := &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)}
	scaler.Spec.Behavior = &autoscalingv1beta1.Behavior{
		ScaleUp:   immediate,
		ScaleDown: &autoscalingv1beta1.ScaleDownRules{ScalingRules: *immediate, MinimumHistorySeconds: ptr.To[int32](0)},
		Rollout:   &autoscalingv1beta1.RolloutRules{CooldownSeconds: ptr.To[int32](0), MinimumHistorySeconds: ptr.To[int32](0)},
	}
	return scaler
}

// recommendFixed makes a scaler recommend these requests for every container that does not use more.
// It does not set maxAllowed, because that bounds limits too.
func recommendFixed(scaler *autoscalingv1beta1.VerticalScaler, requests corev1.ResourceList) {
	amounts := &autoscalingv1beta1.ResourceAmounts{CPU: requests.Cpu(), Memory: requests.Memory()}
	scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
		{ContainerName: "*", MinAllowed: amounts},
	}
	none := &autoscalingv1beta1.ResourceAmounts{CPU: new(resource.MustParse("0")), Memory: new(resource.MustParse("0"))}
	scaler.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{PodMinimum: none}
}

// newWebDeployment returns a Deployment with templateResources whose pods get this answer to a resize.
func newWebDeployment(namespace string, replicas int32, answer string) *appsv1.Deployment {
	deployment := newDeployment(namespace, "web", replicas)
	template := &deployment.Spec.Template
	template.Annotations = map[string]string{annotationResize: answer}
	template.Spec.Containers[0].Resources = *templateResources.DeepCopy()
	return deployment
}

// newTwoContainerDeployment returns a Deployment with two containers that both have templateResources.
func newTwoContainerDeployment(namespace string, replicas int32) *appsv1.Deployment {
	deployment := newWebDeployment(namespace, replicas, "Granted")
	addSecondContainer(deployment)
	return deployment
}

// addSecondContainer adds a copy of a Deployment's only container.
func addSecondContainer(deployment *appsv1.Deployment) {
	containers := &deployment.Spec.Template.Spec.Containers
	*containers = append(*containers, *(*containers)[0].DeepCopy())
	(*containers)[1].Name = "another"
}

// waitForApplied waits until a scaler's Applied condition has this status and reason.
func waitForApplied(
	t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, status metav1.ConditionStatus, reason string,
) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		requireCondition(c, refresh(c, scaler).Status.Conditions, "Applied", status, reason)
	})
}

// waitForSizeTable waits until new pods get exactly the sizes of the scaler's status: none, if the
// scaler has been deleted.
func waitForSizeTable(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		var tables autoscalingv1beta1.SizeTableList
		require.NoError(c, env.client.List(context.Background(), &tables, client.InNamespace(scaler.Namespace)))
		current := scaler.DeepCopy()
		if err := env.client.Get(context.Background(), client.ObjectKeyFromObject(scaler), current); apierrors.IsNotFound(err) {
			require.Empty(c, tables.Items)
			return
		} else if err != nil {
			require.NoError(c, err)
		}
		require.Len(c, tables.Items, 1)
		size := tables.Items[0].Deployments[current.Spec.DeploymentName]
		require.Len(c, size, len(current.Status.Sizing))
		for _, container := range current.Status.Sizing {
			require.True(c, equality.Semantic.DeepEqual(container.Requests, size[container.ContainerName].Requests))
			require.True(c, equality.Semantic.DeepEqual(container.Limits, size[container.ContainerName].Limits))
		}
	})
}

// requireResources requires that all containers of pods have these resources and did not restart.
func requireResources(t require.TestingT, want corev1.ResourceRequirements, pods []corev1.Pod) {
	for i := range pods {
		for _, container := range pods[i].Spec.Containers {
			require.True(t, equality.Semantic.DeepEqual(want, container.Resources), "container %s of pod %s: want %v, got %v",
				container.Name, pods[i].Name, want, container.Resources)
		}
		for _, status := range pods[i].Status.ContainerStatuses {
			require.Zero(t, status.RestartCount, "restarts of container %s of pod %s", status.Name, pods[i].Name)
		}
	}
}

// waitForResources waits until a Deployment has this number of pods, all with these resources.
func waitForResources(t *testing.T, deployment *appsv1.Deployment, want corev1.ResourceRequirements, count int) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		pods := ownedPods(c, deployment)
		require.Len(c, pods, count)
		requireResources(c, want, pods)
	})
}

// countScalerWrites counts the successful writes to a kind of resource in a namespace for VerticalScalers.
func countScalerWrites(t *testing.T, namespace, changed string) int {
	t.Helper()
	requests, err := auditedRequests()
	require.NoError(t, err)
	count := 0
	for i := range requests {
		r := &requests[i]
		if r.ofScaler() && r.writes() && r.ResponseStatus.Code < 300 &&
			r.ObjectRef.Namespace == namespace && r.permission().resource == changed {
			count++
		}
	}
	return count
}

// replicaSetNames returns the names of all ReplicaSets in a namespace. Each rollout creates one.
func replicaSetNames(t *testing.T, namespace string) []string {
	t.Helper()
	var sets appsv1.ReplicaSetList
	require.NoError(t, env.client.List(t.Context(), &sets, client.InNamespace(namespace)))
	return names(sets.Items)
}
