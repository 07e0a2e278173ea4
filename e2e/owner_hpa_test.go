package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The autoscaler raises an owner to its minimum only if it can read and write the scale. It reads
// the usage of the pods only if the scale's selector finds them.
func TestHorizontalPodAutoscalerScalesAnOwnerByThePodsUsage(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)

		hpa := create(t, newCPUAutoscaler(namespace, autoscalingv2.CrossVersionObjectReference{
			APIVersion: k.version, Kind: k.name, Name: owner.GetName(),
		}, 2, 3))

		eventually(t, func(c *assert.CollectT) {
			refresh(c, hpa)
			requireHPACondition(c, hpa, autoscalingv2.AbleToScale)
			requireHPACondition(c, hpa, autoscalingv2.ScalingActive)
			require.Equal(c, int32(2), hpa.Status.CurrentReplicas)
		})
		waitForReady(t, owner)
		waitForPods(t, getDeployment(t, namespace, "app"), 2)
	})
}

// newCPUAutoscaler returns an autoscaler that scales a target by the CPU utilization of its pods.
func newCPUAutoscaler(
	namespace string, target autoscalingv2.CrossVersionObjectReference, minReplicas, maxReplicas int32,
) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-cpu"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: &minReplicas, MaxReplicas: maxReplicas,
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
}

// requireHPACondition requires that a condition of an autoscaler is True.
func requireHPACondition(
	t require.TestingT, hpa *autoscalingv2.HorizontalPodAutoscaler, conditionType autoscalingv2.HorizontalPodAutoscalerConditionType,
) {
	for _, condition := range hpa.Status.Conditions {
		if condition.Type == conditionType {
			require.Equal(t, corev1.ConditionTrue, condition.Status, "%s: %s: %s", conditionType, condition.Reason, condition.Message)
			return
		}
	}
	require.Fail(t, "no condition", "%s", conditionType)
}
