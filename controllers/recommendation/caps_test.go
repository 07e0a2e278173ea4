package recommendation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// waitForCap waits until a scaler of one container reports that something capped both of its
// targets to given amounts.
func waitForCap(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, by autoscalingv1beta1.Cap, target corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all := testenv.Refresh(c, env, scaler).Status.Recommendations
		if !assert.Len(c, all, 1) {
			return
		}
		testenv.AssertSameJSON(c, target, all[0].Target)
		assert.Equal(c, map[corev1.ResourceName]autoscalingv1beta1.Cap{corev1.ResourceCPU: by, corev1.ResourceMemory: by}, all[0].CappedBy)
		assert.NotEqual(c, 0, all[0].UncappedTarget.Cpu().Cmp(*target.Cpu()))
	}, testenv.Timeout, testenv.Poll)
}

// waitForTarget waits until a scaler has a target for its only container, while the source
// returns a new sample of the same usage again and again.
func waitForTarget(
	t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, source *testenv.Meter, pod *corev1.Pod, target corev1.ResourceList,
) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		source.Set(testenv.SteadyUsage(pod, "app", 0.5, 1000, 1)...)
		if all := testenv.Refresh(c, env, scaler).Status.Recommendations; assert.Len(c, all, 1) {
			testenv.AssertSameJSON(c, target, all[0].Target)
		}
	}, testenv.Timeout, testenv.Poll)
}

func allowed(cpu, memory string) *autoscalingv1beta1.ResourceAmounts {
	return &autoscalingv1beta1.ResourceAmounts{CPU: new(resource.MustParse(cpu)), Memory: new(resource.MustParse(memory))}
}

func TestSpecCapsRecommendationAsSoonAsItChanges(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.5, 1000, 1)...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	require.Empty(t, scaler.Status.Recommendations[0].CappedBy)

	for _, test := range []struct {
		by     autoscalingv1beta1.Cap
		target corev1.ResourceList
		spec   autoscalingv1beta1.VerticalScalerSpec
	}{
		{autoscalingv1beta1.CapMinAllowed, testenv.Amounts("3", "3Gi"), autoscalingv1beta1.VerticalScalerSpec{
			ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{
				{ContainerName: "app", MinAllowed: allowed("3", "3Gi")}, {ContainerName: "*", MinAllowed: allowed("9", "9Gi")},
			},
		}},
		{autoscalingv1beta1.CapMaxAllowed, testenv.Amounts("100m", "100Mi"), autoscalingv1beta1.VerticalScalerSpec{
			ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", MaxAllowed: allowed("100m", "100Mi")}},
		}},
		{autoscalingv1beta1.CapPodMinimum, testenv.Amounts("2", "2Gi"), autoscalingv1beta1.VerticalScalerSpec{
			Recommendation: &autoscalingv1beta1.RecommendationPolicy{PodMinimum: allowed("2", "2Gi")},
		}},
	} {
		testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.ContainerPolicies, s.Spec.Recommendation = test.spec.ContainerPolicies, test.spec.Recommendation
		})
		waitForCap(t, scaler, test.by, test.target)
	}
}

func TestLimitRangeCapsRecommendation(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.5, 1000, 1)...)
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	testenv.Create(t, env, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypePod, Max: testenv.Amounts("100m", "100Mi")},
			{Type: corev1.LimitTypeContainer, Max: testenv.Amounts("200m", "400Mi")},
		}},
	})
	waitForTarget(t, scaler, &source, pod, testenv.Amounts("200m", "400Mi"))
	waitForCap(t, scaler, autoscalingv1beta1.CapLimitRange, testenv.Amounts("200m", "400Mi"))
}

// Not parallel: the nodes would cap the recommendations of other tests, so they must be deleted
// before those start.
func TestLargestNodeCapsRecommendation(t *testing.T) {
	namespace := env.Namespace(t)
	createNode := func(name, cpu, memory string, taints ...corev1.Taint) {
		node := testenv.Create(t, env, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node.Spec.Taints = taints // The API server adds that it is not ready.
		require.NoError(t, env.Client.Update(t.Context(), node))
		node.Status.Allocatable = testenv.Amounts(cpu, memory)
		require.NoError(t, env.Client.Status().Update(t.Context(), node))
		t.Cleanup(func() { assert.NoError(t, env.Client.Delete(context.Background(), node)) })
	}
	createNode("most-cpu", "300m", "200Mi")
	createNode("most-memory", "100m", "600Mi")
	createNode("of-others", "8", "8Gi", corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule})
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.5, 1000, 1)...)
	startManager(t, namespace, &source)
	waitForCap(t, scaler, autoscalingv1beta1.CapNodeSize, testenv.Amounts("300m", "600Mi"))
	testenv.AssertSameJSON(t, testenv.Amounts("300m", "600Mi"), scaler.Status.Recommendations[0].UpperBound)

	createNode("larger", "400m", "700Mi")
	waitForTarget(t, scaler, &source, pod, testenv.Amounts("400m", "700Mi"))
}
