package recommendation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/usage"
)

// silentApp is the message about container app.
const silentApp = `No current usage of container "app", although it runs. ` +
	`Check whether metrics-server, or Prometheus, reaches its nodes.`

func recommendedScaler() *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{UID: "1"},
		Status: autoscalingv1beta1.VerticalScalerStatus{
			Recommendations: []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "app"}, {ContainerName: "dropped"}},
		},
	}
}

// podWith returns a pod whose container app runs or not.
func podWith(isRunning bool) []corev1.Pod {
	pod := corev1.Pod{
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}},
	}
	if isRunning {
		pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	}
	return []corev1.Pod{pod}
}

func TestClockOfContainerStartsWhenItRuns(t *testing.T) {
	t.Parallel()
	start, scaler, clocks := time.Now(), recommendedScaler(), newClocks(10*time.Minute)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	check := func(minute int, pods []corev1.Pod, message string, isKnown bool) {
		t.Helper()
		got, gotKnown := clocks.check(scaler, pods, noCause, at(minute))
		assert.Equal(t, message, got, "minute %d", minute)
		assert.Equal(t, isKnown, gotKnown, "minute %d", minute)
	}
	sample := func(minute int) { clocks.sample(scaler.UID, &usage.Sample{Container: "app", Time: at(minute)}) }

	check(0, podWith(true), "", false)
	check(9, podWith(true), "", false)
	check(10, podWith(true), silentApp, true)
	sample(11)
	check(11, podWith(true), "", true)
	check(20, podWith(true), "", true)
	check(21, podWith(false), "", false)
	check(40, podWith(true), "", false) // It has just started.
	check(50, podWith(true), silentApp, true)
	check(51, nil, "", true)
	check(52, podWith(true), "", false)
	sample(53)
	clocks.forget(scaler.UID) // While it is suspended, nothing is learned.
	check(90, podWith(true), "", false)
	check(100, podWith(true), silentApp, true)
}
