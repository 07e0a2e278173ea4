package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// sizeFollower follows the sizes of all pods of the namespace and the statuses of its scalers.
type sizeFollower struct {
	*follower
	pods map[string]podSize
	// applied is, by a scaler's name, the memory in status.sizing, or 0 if Applied is not True.
	applied map[string]int64
}

// podSize is the memory request of a pod, and the times at which the watch delivered changes.
type podSize struct {
	deployment string
	memory     int64
	resized    time.Time // The latest resize.
	killed     time.Time // The first OOM kill.
}

func followSizes(b *testing.B, u *upright) *sizeFollower {
	b.Helper()
	s := &sizeFollower{follower: newFollower(b, u.client), pods: map[string]podSize{}, applied: map[string]int64{}}
	s.follow(b, &corev1.PodList{}, func(object runtime.Object) {
		if pod, isPod := object.(*corev1.Pod); isPod {
			s.pods[pod.Name] = s.pods[pod.Name].update(pod, time.Now())
		}
	})
	s.follow(b, &autoscalingv1beta1.VerticalScalerList{}, func(object runtime.Object) {
		if scaler, isScaler := object.(*autoscalingv1beta1.VerticalScaler); isScaler {
			s.applied[scaler.Name] = appliedMemory(scaler)
		}
	})
	return s
}

// update returns the podSize after an event of the pod.
func (p podSize) update(pod *corev1.Pod, now time.Time) podSize {
	p.deployment = pod.Labels["app"]
	memory := pod.Spec.Containers[0].Resources.Requests.Memory().Value()
	if p.memory != 0 && memory != p.memory {
		p.resized = now
	}
	p.memory = memory
	for i := range pod.Status.ContainerStatuses {
		end := pod.Status.ContainerStatuses[i].State.Terminated
		if end != nil && end.Reason == "OOMKilled" && p.killed.IsZero() {
			p.killed = now
		}
	}
	return p
}

func appliedMemory(scaler *autoscalingv1beta1.VerticalScaler) int64 {
	if len(scaler.Status.Sizing) == 0 || !meta.IsStatusConditionTrue(scaler.Status.Conditions, autoscalingv1beta1.ConditionApplied) {
		return 0
	}
	return scaler.Status.Sizing[0].Requests.Memory().Value()
}

// waitPods waits until all pods request at least so much memory. It returns the time of the last
// resize.
func (s *sizeFollower) waitPods(b *testing.B, memory int64) (last time.Time) {
	b.Helper()
	s.wait(b, func() bool {
		for _, pod := range s.pods {
			if pod.memory < memory {
				return false
			}
			if pod.resized.After(last) {
				last = pod.resized
			}
		}
		return true
	})
	return last
}

// waitScalers waits until the statuses of all scalers show that at least so much memory is applied.
func (s *sizeFollower) waitScalers(b *testing.B, memory int64) {
	b.Helper()
	s.wait(b, func() bool {
		for _, applied := range s.applied {
			if applied < memory {
				return false
			}
		}
		return true
	})
}

func TestPodSizeHasTheFirstKillAndTheLastResize(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	withMemory := func(memory string) *corev1.Pod {
		container := anyContainer()
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		pod.Spec.Containers = []corev1.Container{container}
		return pod
	}
	size := podSize{}.update(withMemory("1Mi"), at(1))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}},
	}}
	size = size.update(pod, at(2)).update(pod, at(3))
	assert.Equal(t, podSize{deployment: "web", memory: 1 << 20, killed: at(2)}, size)

	size = size.update(withMemory("2Mi"), at(4)).update(withMemory("3Mi"), at(5)).update(pod, at(6))
	assert.Equal(t, podSize{deployment: "web", memory: 3 << 20, killed: at(2), resized: at(5)}, size)
}
