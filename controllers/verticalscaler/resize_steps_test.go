package verticalscaler

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// setStatus changes the status of a pod, as its kubelet does.
func setStatus(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	change(&pod.Status)
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// failedResize returns the condition of a resize that the kubelet could not do.
func failedResize(generation int64, message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError,
		Message: message, ObservedGeneration: generation,
	}
}

// TestMemoryIsRaisedWhenTheContainerRuns shows a container that is down after an OOM kill. Only
// its CPU is raised: the kubelet would not put the new memory in force.
func TestMemoryIsRaisedWhenTheContainerRuns(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode)
	pod := w.pods[0]
	setStatus(t, pod, func(status *corev1.PodStatus) {
		status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	})
	w.start(t)
	w.waitForResources(t, pod, 0, corev1.ResourceList{"cpu": large["cpu"], "memory": small["memory"]}, nil)
	assert.Contains(t, w.waitForApplied(t, isFalse, "PodsNotRunning"), "1 of 1 pods have containers that do not run")
	w.assertResizes(t, 1)
	testenv.RunPod(t, env, pod) // It runs, until the next crash.
	w.waitForResources(t, pod, 0, large, nil)
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, 2)
}

// newLoweredWorkload returns a workload whose pod needs more CPU and less memory.
func newLoweredWorkload(t *testing.T) *workload {
	t.Helper()
	return newWorkload(t, 1, []corev1.Container{newContainer("web", testenv.Amounts("100m", "2Gi"), testenv.Amounts("200m", "4Gi"))}, useInPlaceMode)
}

var (
	loweredRequests, loweredLimits = large, testenv.Amounts("1", "2Gi")
	raisedRequests, raisedLimits   = testenv.Amounts("500m", "2Gi"), testenv.Amounts("1", "4Gi")
)

func TestMemoryIsLoweredWhenTheRaisedCPUIsInForce(t *testing.T) {
	t.Parallel()
	w := newLoweredWorkload(t).start(t)
	w.waitForResources(t, w.pods[0], 0, raisedRequests, raisedLimits)
	w.assertResizes(t, 1) // The status still has the old CPU.
	testenv.RunPod(t, env, w.pods[0])
	w.waitForResources(t, w.pods[0], 0, loweredRequests, loweredLimits)
	testenv.RunPod(t, env, w.pods[0])
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, 2)
}

// TestMemoryThatIsLoweredMakesRoomForMemoryThatIsRaised shows a LimitRange that allows the pod before
// and after the resize, but not with the first step alone.
func TestMemoryThatIsLoweredMakesRoomForMemoryThatIsRaised(t *testing.T) {
	t.Parallel()
	requests, limits := testenv.Amounts("250m", "512Mi"), testenv.Amounts("500m", "1Gi")
	containers := []corev1.Container{newContainer("web", requests, limits), newContainer("log", requests, limits)}
	w := newWorkload(t, 1, containers, useInPlaceMode, func(w *workload) {
		w.scaler.Spec.ContainerPolicies = append(fixedPolicies(testenv.Amounts("250m", "768Mi")), fixedPolicies(testenv.Amounts("250m", "256Mi"))...)
		w.scaler.Spec.ContainerPolicies[1].ContainerName = "log"
		testenv.Create(t, env, newLimitRange(w.namespace, corev1.LimitRangeItem{
			Type: corev1.LimitTypePod, Max: only(corev1.ResourceMemory, huge),
		}))
	}).start(t)
	pod := w.pods[0]
	w.waitForResources(t, pod, 1, testenv.Amounts("250m", "256Mi"), testenv.Amounts("500m", "512Mi"))
	testenv.RunPod(t, env, pod)
	w.assertResizes(t, 2) // The first one is refused, and repeated after a pause.
	assert.Contains(t, w.waitForApplied(t, isFalse, "ResizeRefused"), "maximum memory usage per Pod is 2Gi")
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior.MaxRestartingPercent = 50 })
	w.waitForResources(t, pod, 0, testenv.Amounts("250m", "768Mi"), testenv.Amounts("500m", "1536Mi"))
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")
	w.assertResizes(t, 3)
}

// TestPodIsResizedIfOnlyItsFirstStepIsTooLargeForTheNode shows a node that can hold the pod before
// and after the resize.
func TestPodIsResizedIfOnlyItsFirstStepIsTooLargeForTheNode(t *testing.T) {
	t.Parallel()
	requests, limits := testenv.Amounts("250m", "512Mi"), testenv.Amounts("500m", "1Gi")
	containers := []corev1.Container{newContainer("web", requests, limits), newContainer("log", requests, limits)}
	w := newWorkload(t, 1, containers, func(w *workload) {
		w.scaler.Spec.ContainerPolicies = append(fixedPolicies(testenv.Amounts("250m", "768Mi")), fixedPolicies(testenv.Amounts("250m", "256Mi"))...)
		w.scaler.Spec.ContainerPolicies[1].ContainerName = "log"
	})
	var isRefused atomic.Bool
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record,
		testenv.Fault(func(request *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(request.URL.Path, "/resize") || isRefused.Swap(true) {
				return nil, nil
			}
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
				Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
					`"message":"node too small","details":{"kind":"pods","causes":[{"reason":"NodeCapacity"}]}}`)),
			}, nil
		}))
	pod := w.pods[0]
	w.waitForResources(t, pod, 1, testenv.Amounts("250m", "256Mi"), testenv.Amounts("500m", "512Mi"))
	w.waitForResources(t, pod, 0, testenv.Amounts("250m", "768Mi"), testenv.Amounts("500m", "1536Mi"))
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")
	assert.Empty(t, w.writes.To("/deployments/web"), "no rollout")
}

// TestMemoryInUseIsPutBack shows a node that cannot lower memory. The pod keeps its memory, and
// neither the kubelet's retries nor a restart of the manager cause a write.
func TestMemoryInUseIsPutBack(t *testing.T) {
	t.Parallel()
	w := newLoweredWorkload(t).start(t)
	pod := w.pods[0]
	w.waitForResources(t, pod, 0, raisedRequests, raisedLimits)
	testenv.RunPod(t, env, pod)
	w.waitForResources(t, pod, 0, loweredRequests, loweredLimits)
	setStatus(t, pod, func(status *corev1.PodStatus) { // The containers' status has the old memory.
		status.ObservedGeneration = pod.Generation
		status.Conditions = append(status.Conditions, failedResize(pod.Generation, "memory limit (1) below\ncurrent usage (2)"))
	})
	w.waitForResources(t, pod, 0, raisedRequests, raisedLimits)
	message := w.waitForApplied(t, isFalse, "MemoryInUse")
	assert.Contains(t, message, "1 of 1 pods use more memory than their new limit")
	w.waitForEvent(t, "MemoryInUse")
	testenv.RunPod(t, env, pod)
	w.assertResizes(t, 3)
	w.waitForApplied(t, isFalse, "MemoryInUse")

	w.manager.Stop()
	w.start(t)
	w.meter.WaitUntilLearned(t)
	w.assertResizes(t, 3)
	assert.Equal(t, 1, testenv.EventReasons(t, env, w.scaler)["MemoryInUse"])

	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior.MaxRestartingPercent = 50 })
	w.waitForResources(t, pod, 0, loweredRequests, loweredLimits) // A new spec is tried at once.
}

func TestConditionOfAnEarlierResizeIsNotReported(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode)
	pod := w.pods[0]
	setStatus(t, pod, func(status *corev1.PodStatus) {
		status.ObservedGeneration = pod.Generation
		status.Conditions = append(status.Conditions, failedResize(pod.Generation, "an earlier resize"))
	})
	w.start(t)
	w.waitForResources(t, pod, 0, large, nil)
	w.waitForApplied(t, isFalse, "Resizing")
	w.assertResizes(t, 1)
	w.waitForApplied(t, isFalse, "Resizing")
	assert.Zero(t, testenv.EventReasons(t, env, w.scaler)["ResizeFailed"])
}

func TestRetriesOfTheKubeletDoNotRewriteTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode).start(t)
	pod := w.pods[0]
	w.waitForResources(t, pod, 0, large, nil)
	testenv.RunPod(t, env, pod, failedResize(0, "cannot resize:\n used (1024)"))
	assert.Contains(t, w.waitForApplied(t, isFalse, "ResizeFailed"), "cannot resize: used (…)")
	assert.NotContains(t, testenv.ConditionMessage(w.scaler.Status.Conditions, "Applied"), "lowered")
	written := w.statusWrites()
	for _, message := range []string{"cannot resize:\n used (1025)", "cannot resize:\n\tused (99)"} {
		testenv.RunPod(t, env, pod, failedResize(0, message))
		w.meter.WaitUntilLearned(t)
	}
	w.assertResizes(t, 1)
	assert.Equal(t, written, w.statusWrites())
}

func TestPodsThatDoNotReportTheirSizeAreNotSized(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.PodStatus)
		reason string
	}{
		"no resources":    {func(s *corev1.PodStatus) { s.ContainerStatuses[0].Resources = nil }, "ResourcesNotReported"},
		"another limit":   {func(s *corev1.PodStatus) { s.ContainerStatuses[0].Resources.Limits = large }, "Resizing"},
		"container down":  {func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = corev1.ContainerState{} }, "PodsNotRunning"},
		"pod not running": {func(s *corev1.PodStatus) { s.Phase, s.ContainerStatuses = corev1.PodPending, nil }, "PodsNotRunning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", large, huge)}, useInPlaceMode)
			setStatus(t, w.pods[0], test.change)
			w.start(t).waitForApplied(t, isFalse, test.reason)
			testenv.RunPod(t, env, w.pods[0])
			w.waitForApplied(t, isTrue, "Sized")
			w.assertResizes(t, 0)
		})
	}
}

func TestResizeThatTheNodeDoesNotReportIsStalled(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	pod.UID, pod.Generation = "u1", 2
	now := time.Unix(1_000_000, 0)
	known := newAttempts()
	reasonAt := func(after time.Duration) string {
		s := newScope(testenv.NewScaler("default", "web", "web"), now.Add(after))
		p := podResize{scope: s, pod: pod, known: known.of(s)}
		reason, _, err := p.finish(autoscalingv1beta1.ReasonResizing, "", false)
		require.NoError(t, err)
		if reason == autoscalingv1beta1.ReasonResizing {
			assert.Equal(t, stalledAfter-after, s.result.requeue, "a timer triggers the next reconcile")
		}
		return reason
	}
	assert.Equal(t, "Resizing", reasonAt(0))
	assert.Equal(t, "Resizing", reasonAt(stalledAfter-time.Second))
	assert.Equal(t, "ResizeStalled", reasonAt(stalledAfter))
	assert.Equal(t, "ResizeStalled", reasonAt(24*time.Hour))
	now, pod.Generation = now.Add(24*time.Hour), 3
	assert.Equal(t, "Resizing", reasonAt(0), "another resize")
}

func TestAttemptsOfPodsThatNoLongerExistAreDropped(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), time.Unix(1_000_000, 0))
	all := newAttempts()
	known := all.of(s)
	known.of("a").refuse(anyResources, refusal{}, s.now, refusalPause)
	known.of("b")
	known.settle("b", s.now)
	assert.Len(t, known.byPod, 1, "a pod that has its size")
	known.settle("a", s.now)
	assert.Len(t, known.byPod, 1, "a pause may be doubled")
	known.prune(nil)
	assert.Empty(t, known.byPod)
	assert.Same(t, known, all.of(s))
	s.scaler.Generation++
	assert.NotSame(t, known, all.of(s), "a new spec")
	all.forget(client.ObjectKeyFromObject(s.scaler))
	assert.Empty(t, all.byScaler)
}
