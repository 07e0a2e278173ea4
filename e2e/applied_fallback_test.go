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
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPodsThatAQuotaRefusesAtTheirSizeAreCreatedAtThatOfTheirTemplate(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 1, "Granted"))
	settles(t, deployment)
	scaler := newPromptScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
	// 100m are used; there is room for one pod of 300m, and then for one of 100m.
	createCPUQuota(t, namespace, "500m")

	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=3")

	becomesApplied(t, scaler, metav1.ConditionFalse, "QuotaExceeded")
	settles(t, deployment)
	requests := resource.Quantity{}
	for _, pod := range ownedPods(t, deployment) {
		requests.Add(*pod.Spec.Containers[0].Resources.Requests.Cpu())
	}
	assert.Equal(t, "500m", requests.String(), "one pod has the recommended size, and the others the template's")
	message := conditionMessage(refresh(t, scaler), "Applied")
	assert.Regexp(t, `\(exceeded quota: cpu, requested: requests\.cpu=300m, used: requests\.cpu=400m, limited: requests\.cpu=500m\)`, message)
	eventually(t, func(c *assert.CollectT) { requireWarning(c, scaler, "QuotaExceeded", message) })
	assert.Zero(t, writtenForScalers(t, namespace, "pods/resize"))

	// A spec that asks for less is tried at once.
	recommendAlways(scaler, requestsOf("150m", "400Mi"))
	policies := scaler.Spec.ContainerPolicies
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.ContainerPolicies = policies })
	becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=0")
	eventually(t, func(c *assert.CollectT) {
		var quotas corev1.ResourceQuotaList
		require.NoError(c, env.client.List(context.Background(), &quotas, client.InNamespace(namespace)))
		require.True(c, quotas.Items[0].Status.Used.Name(corev1.ResourceRequestsCPU, resource.DecimalSI).IsZero())
	})
	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=3")
	runsResources(t, deployment, resourcesOf("150m", "400Mi", "300m", "800Mi"), 3)
}

func TestRolloutThatAQuotaRefusesGoesOnAtTheSizeOfTheTemplate(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 2, "Granted"))
	settles(t, deployment)
	scaler := newPromptScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
	// There is room for a third pod of 100m, and for none of 300m.
	createCPUQuota(t, namespace, "350m")

	kubectl(t, namespace, "rollout", "restart", "deployment", "web")

	becomesApplied(t, scaler, metav1.ConditionFalse, "QuotaExceeded")
	kubectl(t, namespace, "rollout", "status", "deployment", "web", "--timeout=2m")
	runsResources(t, deployment, charted, 2)
	assert.Len(t, replicaSetsOf(t, namespace), 2)
}

func requestsOf(cpu, memory string) corev1.ResourceList {
	return resourcesOf(cpu, memory, cpu, memory).Requests
}

// newTwinDeployment returns a Deployment of two containers, each of which requests what the
// chart does.
func newTwinDeployment(namespace string, replicas int32) *appsv1.Deployment {
	deployment := newChartedDeployment(namespace, replicas, "Granted")
	containers := &deployment.Spec.Template.Spec.Containers
	*containers = append(*containers, *(*containers)[0].DeepCopy())
	(*containers)[1].Name = "another"
	return deployment
}

// Each container by itself has room on a node, but not both.
func TestPodThatIsTooLargeForAnyNodeIsScheduledAtTheSizeOfItsTemplate(t *testing.T) {
	t.Parallel()
	for mode, rollouts := range map[autoscalingv1beta1.UpdateMode]int{
		autoscalingv1beta1.UpdateModeInitial: 0, autoscalingv1beta1.UpdateModeInPlaceOrRollout: 1,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := create(t, newTwinDeployment(namespace, 2))
			settles(t, deployment)
			scaler := newPromptScaler(namespace, "web")
			scaler.Spec.UpdateMode = mode
			recommendAlways(scaler, requestsOf("60", "400Mi"))
			create(t, scaler)
			if rollouts == 0 {
				becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
				kubectl(t, namespace, "delete", "pods", "--all")
			}

			becomesApplied(t, scaler, metav1.ConditionFalse, "Unschedulable")

			assert.Regexp(t, `\(0/\d+ nodes are available: .*Insufficient cpu.*\)`, conditionMessage(scaler, "Applied"))
			runsResources(t, deployment, charted, 2)
			settles(t, deployment)
			waited := 0
			for _, pod := range ownedPods(t, deployment) {
				if pod.Generation > 1 {
					waited++
				}
			}
			assert.Positive(t, waited, "pods that were resized rather than replaced")
			assert.Equal(t, waited, writtenForScalers(t, namespace, "pods/resize"), "one write for each")
			assert.Equal(t, rollouts, writtenForScalers(t, namespace, "deployments"))
			assert.Len(t, replicaSetsOf(t, namespace), 1+rollouts)
		})
	}
}

func TestPodsAreSizedWithinLimitRangesOfContainersAndOfPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: requestsOf("250m", "512Mi")},
			{
				Type: corev1.LimitTypePod, Max: requestsOf("480m", "2Gi"),
				MaxLimitRequestRatio: requestsOf("2", "2"),
			},
		}},
	})
	deployment := create(t, newTwinDeployment(namespace, 2))
	settles(t, deployment)
	scaler := create(t, newPromptScaler(namespace, "web"))

	// A pod may have 480m, and a container 512Mi.
	within := resourcesOf("120m", "400Mi", "240m", "512Mi")
	runsResources(t, deployment, within, 2)
	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	assert.Contains(t, conditionMessage(scaler, "Applied"), `"other", "another"`)
	kubectl(t, namespace, "scale", "deployment", "web", "--replicas=4")
	runsResources(t, deployment, within, 4)
	settles(t, deployment)
	assert.Len(t, replicaSetsOf(t, namespace), 1)
}
