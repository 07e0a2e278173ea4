package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPodsRefusedByQuotaAreCreatedWithTemplateResources(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newWebDeployment(namespace, 1, "Granted"))
	waitForSettled(t, deployment)
	scaler := newImmediateScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
	// 100m are in use. The quota has room for one pod of 300m, and then for one of 100m.
	createCPUQuota(t, namespace, "500m")

	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=3")

	waitForApplied(t, scaler, metav1.ConditionFalse, "QuotaExceeded")
	waitForSettled(t, deployment)
	requests := resource.Quantity{}
	for _, pod := range ownedPods(t, deployment) {
		requests.Add(*pod.Spec.Containers[0].Resources.Requests.Cpu())
	}
	assert.Equal(t, "500m", requests.String(), "one pod has the recommended size, two have the template's")
	message := conditionMessage(refresh(t, scaler), "Applied")
	assert.Contains(t, message, "exceeded quota: cpu, requested: requests.cpu=300m, used: requests.cpu=400m, limited: requests.cpu=500m")
	eventually(t, func(c *assert.CollectT) { requireWarningEvent(c, scaler, "QuotaExceeded", message) })
	assert.Zero(t, countScalerWrites(t, namespace, "pods/resize"))

	// A smaller recommendation ends the fallback at once.
	recommendFixed(scaler, resourceList("150m", "400Mi"))
	policies := scaler.Spec.ContainerPolicies
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.ContainerPolicies = policies })
	waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=0")
	eventually(t, func(c *assert.CollectT) {
		var quotas corev1.ResourceQuotaList
		require.NoError(c, env.client.List(context.Background(), &quotas, client.InNamespace(namespace)))
		require.True(c, quotas.Items[0].Status.Used.Name(corev1.ResourceRequestsCPU, resource.DecimalSI).IsZero())
	})
	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=3")
	waitForResources(t, deployment, resourcesOf("150m", "400Mi", "300m", "800Mi"), 3)
}

func TestRolloutRefusedByQuotaCompletesWithTemplateResources(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newWebDeployment(namespace, 2, "Granted"))
	waitForSettled(t, deployment)
	scaler := newImmediateScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
	// The quota has room for a third pod of 100m, and no room for one of 300m.
	createCPUQuota(t, namespace, "350m")

	kubectl(t, namespace, "rollout", "restart", "deployment", "web")

	waitForApplied(t, scaler, metav1.ConditionFalse, "QuotaExceeded")
	kubectl(t, namespace, "rollout", "status", "deployment", "web", "--timeout=2m")
	waitForResources(t, deployment, templateResources, 2)
	assert.Len(t, replicaSetNames(t, namespace), 2)
}

// createCPUQuota limits the CPU requests of a namespace's pods, and waits until the quota is in force.
func createCPUQuota(t *testing.T, namespace, cpu string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cpu"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(cpu)}
	create(t, quota)
	eventually(t, func(c *assert.CollectT) { require.NotEmpty(c, refresh(c, quota).Status.Used) })
}

// A node has room for each of the two containers, and not for both.
func TestPodTooLargeForAnyNodeIsScheduledWithTemplateResources(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment, scaler := createTooLarge(t, namespace, autoscalingv1beta1.UpdateModeInitial)
	waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
	kubectl(t, namespace, "delete", "pods", "--all")

	waitForApplied(t, scaler, metav1.ConditionFalse, "Unschedulable")

	assert.Regexp(t, `0/\d+ nodes are available: .*Insufficient cpu`, conditionMessage(scaler, "Applied"))
	// The nodes have enough memory.
	waitForResources(t, deployment, resourcesOf("100m", "400Mi", "200m", "800Mi"), 2)
	waitForSettled(t, deployment)
	resized := 0
	for _, pod := range ownedPods(t, deployment) {
		if pod.Generation > 1 {
			resized++
		}
	}
	assert.Positive(t, resized, "pods that were resized and not replaced")
	assert.Equal(t, resized, countScalerWrites(t, namespace, "pods/resize"), "one write for each")
	assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
	assert.Len(t, replicaSetNames(t, namespace), 1)
}

// createTooLarge creates a Deployment and a scaler that recommends more for its pods than any node has.
func createTooLarge(
	t *testing.T, namespace string, mode autoscalingv1beta1.UpdateMode,
) (*appsv1.Deployment, *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	deployment := create(t, newTwoContainerDeployment(namespace, 2))
	waitForSettled(t, deployment)
	scaler := newImmediateScaler(namespace, "web")
	scaler.Spec.UpdateMode = mode
	recommendFixed(scaler, resourceList("60", "400Mi"))
	return deployment, create(t, scaler)
}

func TestPodsAreNotReplacedForASizeThatNoNodeHas(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment, scaler := createTooLarge(t, namespace, autoscalingv1beta1.UpdateModeInPlaceOrRollout)
	before := ownedPods(t, deployment)

	waitForApplied(t, scaler, metav1.ConditionFalse, "NoNodeFits")

	assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
	after := ownedPods(t, deployment)
	assert.ElementsMatch(t, podUIDs(before), podUIDs(after), "the pods go on running")
}

func podUIDs(all []corev1.Pod) []types.UID {
	var uids []types.UID
	for i := range all {
		uids = append(uids, all[i].UID)
	}
	return uids
}
