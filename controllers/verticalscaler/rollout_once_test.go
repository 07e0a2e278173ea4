package verticalscaler

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

// newUnsupportedWorkload creates a workload whose pods run on nodes that do not support resizes. Its
// Deployment is available.
func newUnsupportedWorkload(t *testing.T, pods int, changes ...func(*workload)) *workload {
	t.Helper()
	w := newWorkload(t, pods, []corev1.Container{newContainer("web", small, nil)}, changes...)
	for _, pod := range w.pods {
		runUnsupported(t, pod)
	}
	testenv.MarkAvailable(t, env, w.deployment(t))
	return w
}

// runUnsupported writes the status of a pod on a node that does not support resizes.
func runUnsupported(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// replacePods replaces the pods by pods of their size in the template, and completes the rollout.
func (w *workload) replacePods(t *testing.T) {
	t.Helper()
	for i, pod := range w.pods {
		replacement := w.newPod(newContainer("web", small, nil))
		replacement.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = ""
		replacement.OwnerReferences[0].Name = "none"
		testenv.Create(t, env, replacement) // The policy does not size the pod of another owner.
		testenv.Edit(t, env, replacement, func(created *corev1.Pod) {
			created.Labels, created.OwnerReferences[0].Name = pod.Labels, pod.OwnerReferences[0].Name
		})
		runUnsupported(t, replacement)
		testenv.Delete(t, env, pod)
		w.pods[i] = replacement
	}
	testenv.MarkAvailable(t, env, w.deployment(t))
}

// waitForRolloutState waits until the status of the last rollout has a state, and returns it.
func (w *workload) waitForRolloutState(t *testing.T, state autoscalingv1beta1.RolloutState) *autoscalingv1beta1.RolloutStatus {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		rollout := testenv.Refresh(c, w.env, w.scaler).Status.Rollout
		if assert.NotNil(c, rollout) {
			assert.Equal(c, state, rollout.State)
		}
	}, testenv.Timeout, testenv.Poll)
	return w.scaler.Status.Rollout
}

func TestRolloutWithoutEffectIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newUnsupportedWorkload(t, 2).start(t)
	d := w.waitForRollout(t, "")
	rollout := w.waitForRolloutState(t, autoscalingv1beta1.RolloutStarted)
	assert.Equal(t, restartedAt(d), rollout.RequestedAt.UTC().Format(time.RFC3339))
	assert.Equal(t, "ResizeUnsupported", rollout.Reason)
	w.replacePods(t)
	assert.Contains(t, w.waitForApplied(t, isFalse, "RolloutIneffective"), "2 of 2 pods")
	assert.Equal(t, int32(1), w.waitForRolloutState(t, autoscalingv1beta1.RolloutIneffective).Ineffective)
	w.waitForEvent(t, "RolloutIneffective")

	w.setPolicies(t, huge) // Another amount does not help pods that support no resize.
	w.waitForSizing(t, newSizing("web", huge, nil))
	w.waitForApplied(t, isFalse, "RolloutIneffective")
	assert.Never(t, func() bool { return len(w.writes.To("/deployments")) > 1 }, testenv.Quiet, testenv.Poll)
	before := len(w.writes.To("/verticalscalers/web/status"))
	assert.Never(t, func() bool { return len(w.writes.To("/verticalscalers/web/status")) > before }, testenv.Quiet, testenv.Poll)
}

func TestRemovedRestartAnnotationIsReported(t *testing.T) {
	t.Parallel()
	w := newUnsupportedWorkload(t, 1).start(t)
	d := w.waitForRollout(t, "")
	testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil })
	testenv.MarkAvailable(t, env, d)
	assert.Contains(t, w.waitForApplied(t, isFalse, "RolloutIneffective"), "somebody removed or replaced the annotation")
	assert.Never(t, func() bool { return len(w.writes.To("/deployments")) > 1 }, testenv.Quiet, testenv.Poll)
	assert.Empty(t, restartedAt(w.deployment(t)))
}

func TestManagerThatStopsDuringARolloutStartsNoSecondOne(t *testing.T) {
	t.Parallel()
	w := newUnsupportedWorkload(t, 1)
	stopping := testenv.Fault(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/verticalscalers/web/status") && len(w.writes.To("/deployments")) > 0 {
			return testenv.InternalError(), nil
		}
		return nil, nil
	})
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record, stopping)
	d := w.waitForRollout(t, "")
	w.manager.Stop()
	rollout := w.waitForRolloutState(t, autoscalingv1beta1.RolloutRequested)
	assert.Equal(t, restartedAt(d), rollout.RequestedAt.UTC().Format(time.RFC3339))

	var writes testenv.Writes
	startManagerIn(t, env, w.namespace, &w.meter, writes.Record)
	w.waitForRolloutState(t, autoscalingv1beta1.RolloutStarted)
	w.replacePods(t)
	w.waitForApplied(t, isFalse, "RolloutIneffective")
	assert.Empty(t, writes.To("/deployments"))
}

func TestFewPodsDoNotRestartAllOthers(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 3, []corev1.Container{newContainer("web", small, nil)})
	runUnsupported(t, w.pods[0])
	testenv.MarkAvailable(t, env, w.deployment(t))
	w.start(t)
	assert.Contains(t, w.waitForApplied(t, isFalse, "ResizeUnsupported"), "1 of 3 pods")
	assert.Never(t, func() bool { return len(w.writes.To("/deployments")) > 0 }, testenv.Quiet, testenv.Poll)
	assert.Nil(t, w.scaler.Status.Rollout)
	runUnsupported(t, w.pods[1])
	w.setPolicies(t, huge) // Now most of the pods cannot be resized.
	w.waitForRollout(t, "")
}

func TestRolloutNeedsHistoryOrAnOOMKill(t *testing.T) {
	t.Parallel()
	w := newUnsupportedWorkload(t, 1, func(w *workload) { w.scaler.Spec.Behavior.Rollout.MinimumHistorySeconds = nil })
	w.start(t)
	assert.Contains(t, w.waitForApplied(t, isFalse, "RolloutNeedsHistory"), "1 of 1 pods")
	w.assertNoRollout(t)
	assert.Equal(t, int32(3600), *w.scaler.Spec.Behavior.Rollout.MinimumHistorySeconds)
	testenv.OOMKill(t, env, w.pods[0], "web", 1)
	w.waitForRollout(t, "")
}

func TestHistoryIsThatOfTheSizedContainerWithTheLeast(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), noon)
	assert.Zero(t, s.shortestHistory())
	recommend := func(container string, span time.Duration) {
		recommended := autoscalingv1beta1.ContainerRecommendation{ContainerName: container}
		recommended.Span.Duration = span
		s.recommendation.Recommendations = append(s.recommendation.Recommendations, recommended)
	}
	recommend("web", 2*time.Hour)
	recommend("log", time.Hour)
	recommend("unsized", 0)
	s.status.Sizing = []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil), newSizing("log", large, nil)}
	assert.Equal(t, time.Hour, s.shortestHistory())
	s.status.Sizing = append(s.status.Sizing, newSizing("new", large, nil))
	assert.Zero(t, s.shortestHistory())
}

func TestRolloutNeedsANodeForTheWholePod(t *testing.T) {
	t.Parallel()
	d := testenv.NewDeployment("default", "web")
	sidecar := newContainer("proxy", large, nil)
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	d.Spec.Template.Spec.InitContainers = []corev1.Container{sidecar}
	d.Spec.Template.Spec.Containers = []corev1.Container{newContainer("web", small, nil)}
	node := func(cpu, memory string) *sizing.Nodes {
		return sizing.NewNodes([]corev1.Node{{Status: corev1.NodeStatus{Allocatable: testenv.Amounts(cpu, memory)}}}, nil)
	}
	s := newScope(testenv.NewScaler("default", "web", "web"), noon)
	s.deployment, s.status.Sizing = d, []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}
	for name, test := range map[string]struct {
		nodes *sizing.Nodes
		want  bool
	}{
		"both containers":  {node("1", "2Gi"), true},
		"only one of them": {node("999m", "2Gi"), false},
		"no node is known": {nil, true},
	} {
		s.constraints.Nodes = test.nodes
		assert.Equal(t, test.want, s.fitsNode(), name)
	}
	d.Spec.Template.Spec.Overhead = testenv.Amounts("1m", "0")
	s.constraints.Nodes = node("1", "2Gi")
	assert.False(t, s.fitsNode(), "with the overhead of the pod")
}

func TestQueuedRolloutReportsItsPlace(t *testing.T) {
	t.Parallel()
	r := &Reconciler{queue: newRolloutQueue(cachedScalers(nil), 1)}
	require.Zero(t, enter(t, r.queue, "other", noon))
	s := newScope(testenv.NewScaler("one", "web", "web"), noon)
	s.result.add(testenv.NewPod("one", "web", "a"), autoscalingv1beta1.ReasonQoSClassFixed, "")
	r.requestRollout(t.Context(), s, &autoscalingv1beta1.RolloutStatus{})
	reason, message := s.result.summary()
	assert.Equal(t, autoscalingv1beta1.ReasonRolloutQueued, reason)
	assert.Contains(t, message, "(place 1 in the queue)")
	assert.Nil(t, s.status.Rollout)
	assert.GreaterOrEqual(t, s.result.requeueAfter(), queueInterval)
	r.queue.forget(types.NamespacedName{Namespace: "one", Name: "other"})
	r.requestRollout(t.Context(), s, &autoscalingv1beta1.RolloutStatus{Cause: "cause"})
	assert.Equal(t, "cause", s.status.Rollout.Cause)
}
