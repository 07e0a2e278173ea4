package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// capped waits until a scaler of one container says that something capped both of its targets
// to given amounts.
func capped(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, by autoscalingv1beta1.Cap, target corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all := refresh(c, scaler).Status.Recommendations
		if !assert.Len(c, all, 1) {
			return
		}
		assertSame(c, target, all[0].Target)
		assert.Equal(c, map[corev1.ResourceName]autoscalingv1beta1.Cap{corev1.ResourceCPU: by, corev1.ResourceMemory: by}, all[0].CappedBy)
		assert.NotEqual(c, 0, all[0].UncappedTarget.Cpu().Cmp(*target.Cpu()))
	}, soon, often)
}

func allowed(cpu, memory string) *autoscalingv1beta1.ResourceAmounts {
	return &autoscalingv1beta1.ResourceAmounts{CPU: new(resource.MustParse(cpu)), Memory: new(resource.MustParse(memory))}
}

func TestARecommendationSaysWhatCappedItAndFollowsAtOnceWhenThatChanges(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.5, 1000, 1)...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	require.Empty(t, scaler.Status.Recommendations[0].CappedBy)

	for _, test := range []struct {
		by      autoscalingv1beta1.Cap
		amounts [2]string
		spec    autoscalingv1beta1.VerticalScalerSpec
	}{
		{autoscalingv1beta1.CapMinAllowed, [2]string{"3", "3Gi"}, autoscalingv1beta1.VerticalScalerSpec{
			ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{
				{ContainerName: "app", MinAllowed: allowed("3", "3Gi")}, {ContainerName: "*", MinAllowed: allowed("9", "9Gi")},
			},
		}},
		{autoscalingv1beta1.CapMaxAllowed, [2]string{"100m", "100Mi"}, autoscalingv1beta1.VerticalScalerSpec{
			ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", MaxAllowed: allowed("100m", "100Mi")}},
		}},
		{autoscalingv1beta1.CapPodMinimum, [2]string{"2", "2Gi"}, autoscalingv1beta1.VerticalScalerSpec{
			Recommendation: &autoscalingv1beta1.RecommendationPolicy{PodMinimum: allowed("2", "2Gi")},
		}},
	} {
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.ContainerPolicies, s.Spec.Recommendation = test.spec.ContainerPolicies, test.spec.Recommendation
		})
		capped(t, scaler, test.by, amounts(test.amounts[0], test.amounts[1]))
	}
}

func TestALimitRangeCapsARecommendationFromTheNextReadingOn(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.5, 1000, 1)...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	create(t, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypePod, Max: amounts("100m", "100Mi")},
			{Type: corev1.LimitTypeContainer, Max: amounts("200m", "400Mi")},
		}},
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		source.show(uses(pod, "app", 0.5, 1000, 1)...)
		if all := refresh(c, scaler).Status.Recommendations; assert.Len(c, all, 1) {
			assertSame(c, amounts("200m", "400Mi"), all[0].Target)
		}
	}, soon, often)
	capped(t, scaler, autoscalingv1beta1.CapLimitRange, amounts("200m", "400Mi"))
}

// Not parallel: the node would cap what the other tests' scalers recommend, so that it must be
// gone before they begin.
func TestTheLargestNodeCapsARecommendation(t *testing.T) {
	namespace := env.Namespace(t)
	node := func(name, cpu, memory string) {
		node := create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node.Status.Allocatable = amounts(cpu, memory)
		require.NoError(t, env.Client.Status().Update(t.Context(), node))
		t.Cleanup(func() { assert.NoError(t, env.Client.Delete(context.Background(), node)) })
	}
	node("wide", "300m", "200Mi")
	node("deep", "100m", "600Mi")
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.5, 1000, 1)...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	capped(t, scaler, autoscalingv1beta1.CapNodeSize, amounts("300m", "600Mi"))
	assertSame(t, amounts("300m", "600Mi"), scaler.Status.Recommendations[0].UpperBound)

	node("larger", "400m", "700Mi")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		source.show(uses(pod, "app", 0.5, 1000, 1)...)
		if all := refresh(c, scaler).Status.Recommendations; assert.Len(c, all, 1) {
			assertSame(c, amounts("400m", "700Mi"), all[0].Target)
		}
	}, soon, often)
}
