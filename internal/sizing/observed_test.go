package sizing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

// podWith returns a running pod whose container "web" requests one size and has another in force.
func podWith(requested, inForce corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: requested}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "web", Resources: &corev1.ResourceRequirements{Requests: inForce}},
		}},
	}
}

func sizesOf(requests corev1.ResourceList) []autoscalingv1beta1.ContainerSizing {
	return []autoscalingv1beta1.ContainerSizing{{ContainerName: "web", Requests: requests}}
}

func TestLeastCountsARaiseWhenItIsInForceAndALoweredSizeAtOnce(t *testing.T) {
	t.Parallel()
	small, large := testenv.Amounts("100m", "128Mi"), testenv.Amounts("1", "1Gi")
	for name, all := range map[string][]*corev1.Pod{
		"a raise that waits":      {podWith(large, small)},
		"a requested decrease":    {podWith(small, large)},
		"one small pod of three":  {podWith(large, large), podWith(small, small), podWith(large, large)},
		"amounts of several pods": {podWith(testenv.Amounts("100m", "1Gi"), large), podWith(testenv.Amounts("1", "128Mi"), large)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.True(t, equality.Semantic.DeepEqual(sizesOf(small), sizing.Least(all)), "%v", sizing.Least(all))
		})
	}
	assert.Empty(t, sizing.Least([]*corev1.Pod{podWith(nil, nil)}))
	assert.Empty(t, sizing.Least(nil))
}

func TestSizeIsLoweredIfAnyResourceIs(t *testing.T) {
	t.Parallel()
	before := sizesOf(testenv.Amounts("500m", "512Mi"))
	spec := &autoscalingv1beta1.VerticalScalerSpec{}
	assert.True(t, sizing.IsLowered(spec, sizesOf(testenv.Amounts("2", "460Mi")), before))
	off := &autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{{ContainerName: "web", Mode: "Off"}}}
	assert.False(t, sizing.IsLowered(off, sizesOf(testenv.Amounts("2", "460Mi")), before), "the container is not sized")
	assert.False(t, sizing.IsLowered(spec, sizesOf(testenv.Amounts("450m", "462Mi")), before), "by a tenth at most")
	assert.False(t, sizing.IsLowered(spec, sizesOf(testenv.Amounts("1", "1Gi")), before))
	assert.False(t, sizing.IsLowered(spec, []autoscalingv1beta1.ContainerSizing{{ContainerName: "new", Requests: testenv.Amounts("1m", "1Mi")}}, before))
}

func TestRaisedTargetsStayWithinMaxAllowed(t *testing.T) {
	t.Parallel()
	spec := &autoscalingv1beta1.VerticalScalerSpec{ContainerPolicies: []autoscalingv1beta1.ContainerPolicy{
		{ContainerName: "*", MaxAllowed: &autoscalingv1beta1.ResourceAmounts{Memory: new(resource.MustParse("700Mi"))}},
	}}
	targets := testenv.Amounts("100m", "256Mi")
	sizing.RaiseTargets(spec, "web", targets, testenv.Amounts("1", "1Gi"))
	testenv.AssertSameJSON(t, testenv.Amounts("1", "700Mi"), targets)

	withoutCPU := corev1.ResourceList{corev1.ResourceMemory: *targets.Memory()}
	sizing.RaiseTargets(spec, "web", withoutCPU, testenv.Amounts("4", "128Mi"))
	testenv.AssertSameJSON(t, corev1.ResourceList{corev1.ResourceMemory: *targets.Memory()}, withoutCPU)
}
