package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestKubectlScalesAnOwner(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)

		for _, replicas := range []string{"3", "2"} {
			kubectl(t, namespace, "scale", k.resource+"/"+owner.GetName(), "--replicas="+replicas)
			becomesReady(t, owner)

			deployment := deploymentOf(t, namespace, "app")
			shown := kubectl(t, namespace, "get", k.resource, owner.GetName(), "--subresource=scale",
				"-o", "jsonpath={.spec.replicas} {.status.replicas}")
			assert.Equal(t, replicas+" "+replicas, shown)
			runsPodsOf(t, deployment, int(*deployment.Spec.Replicas))
		}

		scale := &autoscalingv1.Scale{}
		require.NoError(t, env.client.SubResource("scale").Get(t.Context(), owner, scale))
		selector, err := labels.Parse(scale.Status.Selector)
		require.NoError(t, err)
		selected := podsIn(t, namespace, client.MatchingLabelsSelector{Selector: selector})
		assert.Equal(t, names(ownedPods(t, deploymentOf(t, namespace, "app"))), names(selected))
	})
}

// The autoscaler raises an owner to its minimum only when it can read and write the scale,
// and reads the usage of the pods only when the scale's selector finds them.
func TestHorizontalPodAutoscalerScalesAnOwnerByTheUsageOfItsPods(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)
		hpa := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
					APIVersion: k.version, Kind: k.name, Name: owner.GetName(),
				},
				MinReplicas: ptr.To[int32](2),
				MaxReplicas: 3,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name: corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{
							Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80),
						},
					},
				}},
			},
		}

		create(t, hpa)

		eventually(t, func(c *assert.CollectT) {
			refresh(c, hpa)
			requireHPACondition(c, hpa, autoscalingv2.AbleToScale)
			requireHPACondition(c, hpa, autoscalingv2.ScalingActive)
			require.Equal(c, int32(2), hpa.Status.CurrentReplicas)
		})
		becomesReady(t, owner)
		runsPodsOf(t, deploymentOf(t, namespace, "app"), 2)
	})
}

func requireHPACondition(
	t require.TestingT, hpa *autoscalingv2.HorizontalPodAutoscaler, is autoscalingv2.HorizontalPodAutoscalerConditionType,
) {
	for _, condition := range hpa.Status.Conditions {
		if condition.Type == is {
			require.Equal(t, corev1.ConditionTrue, condition.Status, "%s: %s: %s", is, condition.Reason, condition.Message)
			return
		}
	}
	require.Fail(t, "no condition", "%s", is)
}
