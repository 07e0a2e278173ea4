package verticalscaler

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

// TestPodsThatHaveTheirSizeCostNoMemory shows what makes a reconcile of thousands of pods fast. It
// is not parallel, so that nothing else allocates.
func TestPodsThatHaveTheirSizeCostNoMemory(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newScope(testenv.NewScaler("default", "web", "web"), now)
	s.scaler.Spec.Behavior = immediateBehavior()
	s.workload = history.NewStore().History(s.scaler, now)
	requests, limits := large.DeepCopy(), huge.DeepCopy() // The cache stores equal lists once.
	for i := range 100 {
		pod := corev1.Pod{}
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(strconv.Itoa(i)), metav1.NewTime(now.Add(-time.Hour)), corev1.PodRunning
		for _, name := range []string{"web", "log", "proxy"} {
			pod.Spec.Containers = append(pod.Spec.Containers, newContainer(name, requests, limits))
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				Resources: &corev1.ResourceRequirements{Requests: requests, Limits: limits},
			})
		}
		s.pods = append(s.pods, pod)
	}
	for _, name := range []string{"web", "log", "proxy"} {
		s.status.Sizing = append(s.status.Sizing, newSizing(name, large, huge))
		s.status.Recommendations = append(s.status.Recommendations, autoscalingv1beta1.ContainerRecommendation{
			ContainerName: name, Target: large, LowerBound: small, UpperBound: huge,
		})
	}
	sizes := s.newDueSizes(s.status.Sizing)
	check := func() {
		for i := range s.pods {
			due, isWaiting := sizes.of(&s.pods[i])
			state, _ := sizing.Resizing(&s.pods[i])
			if len(sizing.PlanResize(&s.pods[i], due).Containers) > 0 || isWaiting || state != "" {
				panic("a pod does not have its size")
			}
		}
	}
	check()
	assert.Len(t, sizes.known, 3, "each container is decided once")
	assert.Zero(t, testing.AllocsPerRun(10, check))

	known := newCreations()
	known.observe(s)
	require.Len(t, known.byScaler, 1)
	for _, seen := range known.byScaler {
		assert.Len(t, seen.seen, len(s.pods), "pods of the same time")
		s.pods[0].CreationTimestamp = metav1.NewTime(now)
		known.observe(s)
		assert.Len(t, seen.seen, 1, "pods that are older than another")
	}
}
