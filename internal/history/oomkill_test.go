package history

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/pods"
)

// testPod is a pod with a container "app". Each step of a test takes a minute.
type testPod struct {
	now     time.Time
	version int
	pod     corev1.Pod
}

// amount returns a resource list of Mi of memory.
func amount(mi int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(mi*mebi, resource.BinarySI)}
}

// limited returns resources with a limit of Mi of memory, and half of it as the request.
func limited(mi int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: amount(mi / 2), Limits: amount(mi)}
}

// newPod returns a pod whose container runs with a limit of 256 Mi.
func newPod(uid types.UID) *testPod {
	p := &testPod{now: monday, pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: 1}}}
	p.pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: limited(256)}}
	p.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
	return p.reports(256).starts()
}

func (p *testPod) status() *corev1.ContainerStatus { return &p.pod.Status.ContainerStatuses[0] }

// changes gives the pod another resource version.
func (p *testPod) changes() *testPod {
	p.version++
	p.pod.ResourceVersion = strconv.Itoa(p.version)
	return p
}

// starts starts the container.
func (p *testPod) starts() *testPod {
	p.now = p.now.Add(time.Minute)
	p.status().State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.now)}}
	return p.changes()
}

// isKilled ends the container because it has run out of memory.
func (p *testPod) isKilled() *testPod {
	started := p.status().State.Running.StartedAt
	p.now = p.now.Add(time.Minute)
	p.status().State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	p.status().LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: pods.ReasonOOMKilled, StartedAt: started, FinishedAt: metav1.NewTime(p.now),
	}
	return p.changes()
}

// wants changes the limit in the spec, as a resize does.
func (p *testPod) wants(mi int64) *testPod {
	p.pod.Generation++
	p.pod.Spec.Containers[0].Resources = limited(mi)
	return p.changes()
}

// reports changes the limit in the status.
func (p *testPod) reports(mi int64) *testPod {
	p.status().Resources = new(limited(mi))
	return p.changes()
}

// learn adds the new OOM kills of a pod to a history, and returns how many were added.
func learn(h *WorkloadHistory, p *testPod, template *corev1.PodSpec) (added int) {
	for _, kill := range h.ObservePods([]corev1.Pod{p.pod}, template, p.now) {
		if h.AddOOMKill(kill, p.now) {
			added++
		}
	}
	return added
}

// templateOf returns a template with a limit of Mi of memory.
func templateOf(mi int64) *corev1.PodSpec {
	return &corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limited(mi)}}}
}

// requireKillAt requires that the highest OOM kill of a history was at a limit of Mi. It is 0 if
// none is counted.
func requireKillAt(t *testing.T, mi int64, h *WorkloadHistory, message string) {
	t.Helper()
	want := newTestHistory()
	if mi > 0 {
		kill := oomKill("pod", "app", monday)
		kill.Memory = mi * mebi
		require.True(t, want.AddOOMKill(kill, monday))
	}
	require.Equal(t, recommend(want, "app").Memory.Target/mebi, recommend(h, "app").Memory.Target/mebi, message)
}

func TestOOMKillCountsAtTheLimitInForceWhileAResizeDoesNotHappen(t *testing.T) {
	t.Parallel()
	h, p := newTestHistory(), newPod("pod")
	learn(h, p, nil)
	for range 20 {
		p.isKilled()
		assert.Equal(t, 1, learn(h, p, nil))
		requireKillAt(t, 256, h, "the kubelet has not resized the pod")
		p.starts()
		learn(h, p, nil)
		p.wants(recommend(h, "app").Memory.Target / mebi) // Deferred, Infeasible or failed.
		assert.Zero(t, learn(h, p, nil))
	}
	assert.Equal(t, int64(423), recommend(h, "app").Memory.Target/mebi)
}

func TestOOMKillCountsAtAGrownLimitOnceItIsInForce(t *testing.T) {
	t.Parallel()
	h, p := newTestHistory(), newPod("pod")
	learn(h, p, nil)
	for _, mi := range []int64{256, 423, 641} {
		learn(h, p.wants(mi), nil)
		learn(h, p.reports(mi), nil)
		learn(h, p.isKilled(), nil)
		requireKillAt(t, mi, h, "the container had it when it was killed")
		learn(h, p.starts(), nil)
	}
}

// The kubelet reports the resize at once, but the pod's cgroup keeps the old limit.
func TestResizeOfAStoppedContainerIsNotInForceInItsNextRun(t *testing.T) {
	t.Parallel()
	for name, observesStop := range map[string]bool{"stop is observed": true, "stop is missed": false} {
		h, p := newTestHistory(), newPod("pod")
		learn(h, p, nil)
		learn(h, p.isKilled(), nil)
		p.wants(423).reports(423)
		if observesStop {
			learn(h, p, nil)
		}
		for range 3 {
			learn(h, p.starts(), nil)
			assert.Equal(t, 1, learn(h, p.isKilled(), nil), name)
			requireKillAt(t, 256, h, name)
		}
		p.starts()
		learn(h, p, nil)
		learn(h, p.wants(500).reports(500), nil)
		learn(h, p.isKilled(), nil)
		requireKillAt(t, 500, h, name+": the next resize happened while the container ran")
	}
}

func TestOOMKillOfARunThatWasNotObservedCountsAtThePreviousLimit(t *testing.T) {
	t.Parallel()
	h, p := newTestHistory(), newPod("pod")
	learn(h, p, nil)
	p.isKilled().wants(423).reports(423).starts().isKilled().starts().isKilled()
	assert.Equal(t, 1, learn(h, p, nil), "only the last kill is in the status")
	requireKillAt(t, 256, h, "the container may never have had more")

	h, p = newTestHistory(), newPod("pod")
	learn(h, p, nil)
	learn(h, p.isKilled().wants(128).reports(128).starts().isKilled(), nil)
	requireKillAt(t, 128, h, "the limit was lowered")
}

func TestOOMKillIsNotCountedAtAHigherLimitAfterTheManagerWasKilled(t *testing.T) {
	t.Parallel()
	p := newPod("pod")
	before := newTestHistory()
	learn(before, p, templateOf(256))
	learn(before, p.isKilled().starts(), templateOf(256))
	requireKillAt(t, 256, before, "")
	learn(before, p.wants(423).reports(423), templateOf(256))
	for range 3 { // Nothing was saved.
		h := newTestHistory()
		assert.Zero(t, learn(h, p, nil), "the size of the killed run is not known")
		requireKillAt(t, 0, h, "without the template")
		assert.Equal(t, 1, learn(h, p, templateOf(256)))
		requireKillAt(t, 256, h, "the template's limit")
		assert.Zero(t, learn(h, p, templateOf(256)))

		for _, mi := range []int64{423, 1000} {
			h = newTestHistory()
			assert.Zero(t, learn(h, p, templateOf(mi)))
			requireKillAt(t, 0, h, "the container had less than the template's limit")
		}
	}
}

func TestOOMKillOfAPodThatWasNeverResizedCountsAfterTheManagerWasKilled(t *testing.T) {
	t.Parallel()
	p := newPod("pod").isKilled()
	for _, status := range []*corev1.ResourceRequirements{nil, new(limited(256))} {
		p.changes().status().Resources = status // An old kubelet does not report it.
		for range 3 {
			h := newTestHistory()
			assert.Equal(t, 1, learn(h, p, nil))
			requireKillAt(t, 256, h, "the pod has the size that it was created with")
		}
	}
}

func TestSavedMemoryOfAKilledContainerSurvivesARestart(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	store, p := NewStore(), newPod("pod")
	h := store.History(scaler, monday)
	restart := func() {
		t.Helper()
		saved := stored(t, h, p.now)
		store = NewStore()
		require.NoError(t, store.Restore(saved, p.now))
		h = store.History(scaler, p.now)
		require.Equal(t, saved.Data, stored(t, h, p.now).Data)
	}
	learn(h, p, nil)
	learn(h, p.isKilled().starts(), nil)
	learn(h, p.wants(423).reports(423), nil)
	restart()
	assert.Zero(t, learn(h, p, templateOf(256)), "the kill is counted")
	learn(h, p.isKilled(), templateOf(256))
	requireKillAt(t, 423, h, "it was in force before the restart")

	p.wants(641).reports(641)
	learn(h, p, nil)
	restart()
	learn(h, p.starts(), nil)
	learn(h, p.isKilled(), nil)
	requireKillAt(t, 423, h, "the resize to 641 Mi happened while the container did not run")
}

func TestRecreatedScalerCountsAnOOMKillAtTheSameLimit(t *testing.T) {
	t.Parallel()
	store, p := NewStore(), newPod("pod")
	h := store.History(newScaler("web", "1"), monday)
	learn(h, p, nil)
	learn(h, p.isKilled().starts(), nil)
	learn(h, p.wants(423).reports(423), nil)
	for _, uid := range []types.UID{"2", "3"} {
		h = store.History(newScaler("web", uid), p.now)
		requireKillAt(t, 0, h, "a new history")
		assert.Equal(t, 1, learn(h, p, nil))
		requireKillAt(t, 256, h, "the limit at the kill")
		assert.Zero(t, learn(h, p, nil))
	}
	retargeted := newScaler("web", "3")
	retargeted.Spec.DeploymentName = "api"
	assert.Empty(t, store.History(retargeted, p.now).pods, "the pods of another Deployment")
}

func TestOOMKillWithAnImpossibleTimeCountsOnceAndNow(t *testing.T) {
	t.Parallel()
	for name, finished := range map[string]time.Time{
		"zero": {}, "1970": time.Unix(0, 0), "in the future": monday.Add(1000 * day), "after all": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		scaler := newScaler("web", "1")
		store, p := NewStore(), newPod("pod").isKilled()
		h := store.History(scaler, monday)
		addUsage(t, h, "app", p.now, 0.12)
		p.changes().status().LastTerminationState.Terminated.FinishedAt = metav1.NewTime(finished)
		assert.Equal(t, 1, learn(h, p, nil), name)
		requireKillAt(t, 256, h, name)
		assert.Zero(t, learn(h, p, nil), name)
		assert.Equal(t, p.now, h.containers["app"].LastSample(), name)

		saved := stored(t, h, p.now)
		require.NoError(t, NewStore().Restore(saved, p.now), name)
		assert.False(t, saved.Data.OOMKills[0].FinishedAt.IsZero(), "%s: a required field must not be null", name)
		store = NewStore()
		require.NoError(t, store.Restore(saved, p.now))
		h = store.History(scaler, p.now)
		assert.Zero(t, learn(h, p, nil), name)
		assert.Equal(t, 1, learn(h, p.starts().isKilled(), nil), "%s: the next kill", name)
	}
}

func TestSampleOfTheFutureDoesNotExcludeAllOthersAfterARestart(t *testing.T) {
	t.Parallel()
	scaler := newScaler("web", "1")
	h := NewStore().History(scaler, monday)
	addUsage(t, h, "app", monday.Add(10*day), 0.12)
	store := NewStore()
	require.NoError(t, store.Restore(stored(t, h, monday), monday))
	assert.Equal(t, monday, store.History(scaler, monday).Restored())
}
