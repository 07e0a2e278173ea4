package pods_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/pods"
)

// terminated returns the state of a container that ended after a minute.
func terminated(reason string, at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, StartedAt: metav1.NewTime(at.Add(-time.Minute)), FinishedAt: metav1.NewTime(at),
	}}
}

func TestLastOOMKillPrefersCurrentState(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	earlier := start.Add(-time.Hour)
	for name, test := range map[string]struct {
		state, last corev1.ContainerState
		want        time.Time // The zero time means no OOM kill.
	}{
		"never ended":                       {state: running},
		"waiting after an OOM kill":         {last: terminated("OOMKilled", start), want: start},
		"restarted after an OOM kill":       {state: running, last: terminated("OOMKilled", start), want: start},
		"restarted after an error":          {state: running, last: terminated("Error", start)},
		"not restarted after an OOM kill":   {state: terminated("OOMKilled", start), want: start},
		"not restarted after two OOM kills": {state: terminated("OOMKilled", start), last: terminated("OOMKilled", earlier), want: start},
		"error after an OOM kill":           {state: terminated("Error", start), last: terminated("OOMKilled", earlier), want: earlier},
		"no state":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := pods.LastOOMKill(&corev1.ContainerStatus{State: test.state, LastTerminationState: test.last})
			if test.want.IsZero() {
				assert.Nil(t, last)
			} else if assert.NotNil(t, last) {
				assert.Equal(t, test.want, last.FinishedAt.Time)
			}
		})
	}
}

func TestOOMKillsReturnsLastKillOfEachSizableContainer(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: specWithSidecar()}
	killed := func(name string, at time.Time) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, LastTerminationState: terminated("OOMKilled", at)}
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		killed("init", start), killed("sidecar", start.Add(time.Minute)), killed("init-on-failure", start),
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		killed("app", start.Add(time.Hour)),
		{Name: "never-restarted", State: terminated("Error", start)},
		killed("removed", start),
	}
	assert.Equal(t, []pods.OOMKill{
		{Pod: "1", Container: "sidecar", StartedAt: start, FinishedAt: start.Add(time.Minute)},
		{Pod: "1", Container: "app", StartedAt: start.Add(59 * time.Minute), FinishedAt: start.Add(time.Hour)},
	}, pods.OOMKills(pod))
}

func TestMemoryIsTheLimitOrElseTheRequest(t *testing.T) {
	t.Parallel()
	amount := func(bytes string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(bytes)}
	}
	for name, test := range map[string]struct {
		requests, limits corev1.ResourceList
		want             int64
	}{
		"both":           {amount("64"), amount("128"), 128},
		"only a limit":   {nil, amount("128"), 128},
		"only a request": {amount("64"), nil, 64},
		"limit of zero":  {amount("64"), amount("0"), 64},
		"neither":        {},
	} {
		assert.Equal(t, test.want, pods.Memory(&corev1.ResourceRequirements{Requests: test.requests, Limits: test.limits}), name)
	}
}

func TestOOMKillsIsEmptyWithoutKills(t *testing.T) {
	t.Parallel()
	assert.Empty(t, pods.OOMKills(&corev1.Pod{Spec: specWithSidecar()}))
}
