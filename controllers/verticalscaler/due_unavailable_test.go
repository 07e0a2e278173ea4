package verticalscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/testenv"
)

func TestRequestsAreNotLoweredWithoutCurrentUsage(t *testing.T) {
	t.Parallel()
	now := time.Now()
	scaler := testenv.NewScaler("default", "web", "web")
	s := newScope(scaler, now)
	s.workload = history.NewStore().History(scaler, now)
	pod := testenv.NewPod("default", "web", "aaaaa", "app")
	sizeFor := func(target corev1.ResourceList) {
		s.status.Recommendations = []autoscalingv1beta1.ContainerRecommendation{{
			ContainerName: "app", Target: target,
			LowerBound: target, UpperBound: testenv.Amounts("10", "10Gi"),
		}}
		s.status.Sizing = []autoscalingv1beta1.ContainerSizing{{ContainerName: "app", Requests: target}}
	}
	sizeFor(testenv.Amounts("50m", "128Mi"))
	s.workload.RecordTarget("app", corev1.ResourceCPU, 50, now.Add(-24*time.Hour))
	s.workload.RecordTarget("app", corev1.ResourceMemory, 128<<20, now.Add(-24*time.Hour))
	due, _ := s.newDueSizes(s.status.Sizing).of(pod)
	require.Len(t, due, 1)
	assert.Len(t, due[0].Requests, 2, "the target is stable")

	s.unavailable = "No current usage."
	due, isWaiting := s.newDueSizes(s.status.Sizing).of(pod)
	assert.Empty(t, due)
	assert.True(t, isWaiting)

	sizeFor(testenv.Amounts("500m", "512Mi"))
	due, _ = s.newDueSizes(s.status.Sizing).of(pod)
	assert.Len(t, due[0].Requests, 2, "too small requests are raised nevertheless")
}
