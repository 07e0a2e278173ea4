package verticalscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

// recommendFromUsage makes the scaler of a workload recommend what its pods use, which is less than
// huge.
func recommendFromUsage(w *workload) { w.scaler.Spec.ContainerPolicies = nil }

// requireHistory makes the scaler of a workload wait for a history before it lowers sizes.
func requireHistory(seconds int32) func(*workload) {
	return func(w *workload) { w.scaler.Spec.Behavior.ScaleDown.MinimumHistorySeconds = &seconds }
}

func TestPodsGetNoLessThanTheTemplateWithoutEnoughHistory(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", huge, nil)}, recommendFromUsage, requireHistory(86400)).start(t)
	assert.Contains(t, w.waitForApplied(t, isFalse, "InsufficientHistory"), `24h0m0s of usage history; these containers keep what the template requests: "web"`)
	w.waitForSizing(t)
	w.assertResizes(t, 0)
	w.waitForNewPod(t, w.newPod(newContainer("web", huge, nil)), huge, nil)
}

func TestPodsGetMoreThanTheTemplateWithoutHistory(t *testing.T) {
	t.Parallel()
	template := testenv.Amounts("100m", "2Gi") // Less CPU and more memory than recommended.
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", template, nil)}, requireHistory(86400)).start(t)
	w.waitForSizing(t, newSizing("web", only(corev1.ResourceCPU, large), nil))
	w.waitForResources(t, w.pods[0], 0, testenv.Amounts("500m", "2Gi"), nil)
}

func TestPodsGetLessThanTheTemplateAfterEnoughHistory(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", huge, nil)}, requireHistory(120))
	w.meter.Set(testenv.SteadyUsage(w.pods[0], "web", 0.2, 300, 4)...)
	w.start(t).waitForSizing(t, newSizing("web", large, nil))
	w.waitForResources(t, w.pods[0], 0, large, nil)
}

func TestPodsGetTheirPreviousSizeAgainAfterAnOOMKill(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", huge, nil)}, recommendFromUsage).start(t)
	for _, pod := range w.pods {
		require.Eventually(t, func() bool {
			return testenv.Refresh(t, env, pod).Spec.Containers[0].Resources.Requests.Memory().Cmp(*huge.Memory()) < 0
		}, testenv.Timeout, testenv.Poll)
		testenv.RunPod(t, env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
	killNow(t, w.pods[0])
	message := w.waitForApplied(t, isFalse, "Reverted")
	assert.Contains(t, message, `container "web" of pod `+w.pods[0].Name+" ran out of memory")
	for _, pod := range w.pods {
		w.waitForResources(t, pod, 0, huge, nil)
		testenv.RunPod(t, env, pod)
	}
	w.waitForNewPod(t, w.newPod(newContainer("web", huge, nil)), huge, nil)
	revert := w.scaler.Status.Revert
	require.NotNil(t, revert)
	assert.Equal(t, 24*time.Hour, revert.Until.Sub(revert.Since.Time))

	w.manager.Stop()
	w.start(t)
	w.meter.WaitUntilLearned(t)
	w.waitForApplied(t, isFalse, "Reverted")
	w.waitForSizing(t, newSizing("web", huge, nil))
}

// killNow writes the status of a container that has just run out of memory and was restarted.
func killNow(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Refresh(t, env, pod)
	status := &pod.Status.ContainerStatuses[0]
	status.RestartCount++
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.NewTime(time.Now()),
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// trialScope returns the scope of a scaler whose pods have a size, at a time.
func trialScope(status autoscalingv1beta1.VerticalScalerStatus, now time.Time, requests corev1.ResourceList, count int) *scope {
	scaler := testenv.NewScaler("default", "web", "web")
	scaler.Status = status
	scaler.Status.DeploymentName = "web"
	scaler.Status.Recommendations = []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "web", Target: requests}}
	s := newScope(scaler, now)
	s.target = &metav1.PartialObjectMetadata{}
	s.deployment = &appsv1.Deployment{}
	s.deployment.Spec.Template.Spec.Containers = []corev1.Container{newContainer("web", huge, nil)}
	for range count {
		pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{newContainer("web", requests, nil)}}}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "web"}}}
		s.pods = append(s.pods, pod)
	}
	return s
}

// restartPods sets the last termination of the first pods of a scope.
func (s *scope) restartPods(count int, reason string, at time.Time) {
	for i := range count {
		s.pods[i].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: reason, FinishedAt: metav1.NewTime(at),
		}
	}
}

// onTrial returns a status in which large is on trial since a time, after huge.
func onTrial(since time.Time) autoscalingv1beta1.VerticalScalerStatus {
	return autoscalingv1beta1.VerticalScalerStatus{
		LastKnownGood: &autoscalingv1beta1.ObservedSize{Sizes: []autoscalingv1beta1.ContainerSizing{newSizing("web", huge, nil)}},
		Trial:         &autoscalingv1beta1.ObservedSize{Sizes: []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}, Since: metav1.NewTime(since)},
	}
}

func TestSizeBecomesTheLastKnownGoodOneAfterItsTrial(t *testing.T) {
	t.Parallel()
	s := trialScope(autoscalingv1beta1.VerticalScalerStatus{}, noon, large, 3)
	s.setTrial()
	require.NotNil(t, s.status.Trial)
	assert.Equal(t, noon, s.status.Trial.Since.Time)
	assert.Nil(t, s.status.LastKnownGood)
	assert.Equal(t, time.Hour, s.result.requeue)

	early := trialScope(s.status, noon.Add(59*time.Minute), large, 3)
	early.setTrial()
	assert.Equal(t, s.status.Trial, early.status.Trial, "the trial does not change, so nothing is written")
	assert.Nil(t, early.status.LastKnownGood)

	passed := trialScope(s.status, noon.Add(time.Hour), large, 3)
	passed.setTrial()
	assert.Nil(t, passed.status.Trial)
	require.NotNil(t, passed.status.LastKnownGood)
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}, passed.status.LastKnownGood.Sizes)

	later := trialScope(passed.status, noon.Add(2*time.Hour), large, 3)
	later.setTrial()
	assert.Nil(t, later.status.Trial)
	assert.Equal(t, passed.status.LastKnownGood, later.status.LastKnownGood)
}

func TestTrialContinuesWhileAPodRestartsOrIsUnready(t *testing.T) {
	t.Parallel()
	status := onTrial(noon)
	status.LastKnownGood = nil
	restarted := trialScope(status, noon.Add(time.Hour), large, 20)
	restarted.restartPods(1, "Error", noon.Add(30*time.Minute))
	restarted.setTrial()
	assert.NotNil(t, restarted.status.Trial)
	assert.Nil(t, restarted.status.LastKnownGood)
	assert.Equal(t, 30*time.Minute, restarted.result.requeue)

	unready := trialScope(status, noon.Add(time.Hour), large, 20)
	unready.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(55 * time.Minute))}}
	unready.setTrial()
	assert.NotNil(t, unready.status.Trial)
	assert.Nil(t, unready.status.LastKnownGood)
}

func TestRevertStartsIfPodsDoWorseAfterTheirSizeWasLowered(t *testing.T) {
	t.Parallel()
	now := noon.Add(20 * time.Minute)
	for name, test := range map[string]struct {
		pods, restarted int
		reason          string
		unready         bool
		requests        corev1.ResourceList
		want            string
	}{
		"an OOM kill of one pod of a hundred":   {pods: 100, restarted: 1, reason: "OOMKilled", requests: large, want: "OOMKilled"},
		"a restart of the only pod":             {pods: 1, restarted: 1, reason: "Error", requests: large, want: "Restarted"},
		"restarts of ten of a hundred":          {pods: 100, restarted: 10, reason: "Error", requests: large, want: "Restarted"},
		"restarts of nine of a hundred":         {pods: 100, restarted: 9, reason: "Error", requests: large},
		"a pod that does not become ready":      {pods: 3, unready: true, requests: large, want: "NotReady"},
		"an OOM kill after the size was raised": {pods: 1, restarted: 1, reason: "OOMKilled", requests: testenv.Amounts("2", "4Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := onTrial(noon)
			status.Trial.Sizes = []autoscalingv1beta1.ContainerSizing{newSizing("web", test.requests, nil)}
			s := trialScope(status, now, test.requests, test.pods)
			s.restartPods(test.restarted, test.reason, noon.Add(time.Minute))
			if test.unready {
				s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))}}
			}
			s.setTrial()
			got := ""
			if s.status.Revert != nil {
				got = s.status.Revert.Reason
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// A new pod is unready before it runs, and so before its trial begins.
func TestRevertStartsIfANewPodNeverBecomesReady(t *testing.T) {
	t.Parallel()
	status := onTrial(noon)
	status.Trial = nil
	at := func(now time.Time) *scope {
		s := trialScope(status, now, large, 1)
		s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-4 * time.Second))}}
		s.setTrial()
		status = s.status
		return s
	}
	started := at(noon)
	require.NotNil(t, status.Trial)
	assert.Equal(t, 10*time.Minute, started.result.requeue)
	at(noon.Add(10*time.Minute - time.Second))
	assert.Nil(t, status.Revert)
	at(noon.Add(10 * time.Minute))
	require.NotNil(t, status.Revert)
	assert.Equal(t, "NotReady", status.Revert.Reason)
}

func TestRestartsDoNotAddUpOverALongTrial(t *testing.T) {
	t.Parallel()
	s := trialScope(onTrial(noon), noon.Add(9*time.Hour+30*time.Minute), large, 100)
	for i := range 10 {
		s.pods[i].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "Error", FinishedAt: metav1.NewTime(noon.Add(time.Duration(i) * time.Hour)),
		}
	}
	s.setTrial()
	assert.Nil(t, s.status.Revert)
}

func TestSizesOnTrialAreNotTheLastKnownGoodOnesDuringARevert(t *testing.T) {
	t.Parallel()
	s := trialScope(onTrial(noon), noon.Add(time.Minute), large, 1)
	s.restartPods(1, "OOMKilled", noon.Add(time.Second))
	s.setTrial()
	require.NotNil(t, s.status.Revert)

	// The pod cannot be resized, or updateMode is Initial.
	later := trialScope(s.status, noon.Add(2*time.Hour), large, 1)
	later.restartPods(1, "OOMKilled", noon.Add(time.Second))
	later.setTrial()
	testenv.AssertSameJSON(t, onTrial(noon).LastKnownGood.Sizes, later.status.LastKnownGood.Sizes)

	unknown := trialScope(s.status, noon.Add(2*time.Hour), large, 1)
	unknown.status.LastKnownGood = nil
	unknown.keepReplacedSizes()
	assert.Nil(t, unknown.status.LastKnownGood, "a rollout for the revert replaces the pods")

	after := trialScope(s.status, s.status.Revert.Until.Time, large, 1)
	after.restartPods(1, "OOMKilled", noon.Add(time.Second))
	after.setTrial()
	assert.Equal(t, s.status.Revert, after.status.Revert, "an old OOM kill starts no second revert")
	testenv.AssertSameJSON(t, onTrial(noon).Trial.Sizes, after.status.LastKnownGood.Sizes)
}

func TestRevertStartsWhilePodsOfARolloutDoNotStart(t *testing.T) {
	t.Parallel()
	s := trialScope(onTrial(noon), noon.Add(time.Minute), large, 1)
	s.restartPods(1, "OOMKilled", noon.Add(time.Second))
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Labels, pod.CreationTimestamp = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "new"}, metav1.NewTime(noon)
	s.pods = append(s.pods, pod)
	s.setTrial()
	assert.NotNil(t, s.status.Revert)
}

func TestRevertStartsForAContainerWithoutALastKnownGoodSize(t *testing.T) {
	t.Parallel()
	status := onTrial(noon)
	status.LastKnownGood.Sizes[0].ContainerName = "previous"
	s := trialScope(status, noon.Add(time.Minute), large, 1)
	s.restartPods(1, "OOMKilled", noon.Add(time.Second))
	s.setTrial()
	assert.NotNil(t, s.status.Revert)
	testenv.AssertSameJSON(t, huge, sizing.SizeOf(s.previousSizes(), "web").Requests)
}

func TestRevertToMoreThanTheTemplateNeedsNoHistory(t *testing.T) {
	t.Parallel()
	s := revertScope(small, newContainer("web", large, nil))
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", huge, nil)}, s.recommendedSizes())
}

func TestRevertRaisesLimitsWithRequestsAlthoughScaleUpIsDisabled(t *testing.T) {
	t.Parallel()
	s := revertScope(large, newContainer("web", huge, huge))
	s.scaler.Spec.Behavior = &autoscalingv1beta1.Behavior{ScaleUp: &autoscalingv1beta1.ScalingRules{SelectPolicy: "Disabled"}}
	s.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, large)}
	size := newSizing("web", huge, huge)
	size.TemplateLimits = huge
	due, _ := s.newDueSizes([]autoscalingv1beta1.ContainerSizing{size}).of(&s.pods[0])
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", huge, huge)}, due)
}

func TestPinnedSizeIsNotReportedAsReverted(t *testing.T) {
	t.Parallel()
	s := revertScope(large, newContainer("web", huge, nil))
	s.status.Sizing = []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}
	assert.Equal(t, "Reverted", s.applied().Reason)
	s.scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
	assert.Equal(t, "Sized", s.applied().Reason)
}

// revertScope returns the scope of a revert to huge.
func revertScope(target corev1.ResourceList, template corev1.Container) *scope {
	status := onTrial(noon)
	status.Revert = &autoscalingv1beta1.Revert{Since: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(24 * time.Hour))}
	s := trialScope(status, noon.Add(time.Minute), target, 1)
	s.deployment.Spec.Template.Spec.Containers = []corev1.Container{template}
	s.workload = &history.WorkloadHistory{}
	return s
}

func TestRevertsDoubleUpToAWeek(t *testing.T) {
	t.Parallel()
	now, status := noon, onTrial(noon)
	var lengths []time.Duration
	for range 5 {
		s := trialScope(status, now.Add(time.Minute), large, 1)
		s.restartPods(1, "OOMKilled", now.Add(time.Second))
		s.setTrial()
		require.NotNil(t, s.status.Revert)
		lengths = append(lengths, s.status.Revert.Until.Sub(s.status.Revert.Since.Time))
		now = s.status.Revert.Until.Add(time.Minute)
		status = s.status
		status.Trial = onTrial(now).Trial
	}
	const day = 24 * time.Hour
	assert.Equal(t, []time.Duration{day, 2 * day, 4 * day, 7 * day, 7 * day}, lengths)

	forgotten := trialScope(status, status.Revert.Until.Add(8*day), large, 1)
	forgotten.setTrial()
	assert.Nil(t, forgotten.status.Revert)
}

func TestRevertIsForgottenWhenNothingIsApplied(t *testing.T) {
	t.Parallel()
	status := onTrial(noon)
	status.Revert = &autoscalingv1beta1.Revert{Since: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(time.Hour))}
	s := trialScope(status, noon.Add(time.Minute), large, 1)
	s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
	s.setTrial()
	assert.Nil(t, s.status.Revert)
	assert.Nil(t, s.status.Trial)
	assert.Nil(t, s.status.LastKnownGood)

	edited := trialScope(status, noon.Add(time.Minute), large, 1)
	edited.scaler.Generation = 2
	edited.setTrial()
	assert.Nil(t, edited.status.Revert, "a change of the spec ends it")
	assert.NotNil(t, edited.status.LastKnownGood)
}

func TestRolloutKeepsTheSizesOfTheReadyPodsThatItReplaces(t *testing.T) {
	t.Parallel()
	s := trialScope(autoscalingv1beta1.VerticalScalerStatus{}, noon, large, 2)
	s.setTrial()
	s.keepReplacedSizes()
	require.NotNil(t, s.status.LastKnownGood)
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}, s.status.LastKnownGood.Sizes)
	assert.Nil(t, s.status.Trial)

	known := trialScope(onTrial(noon), noon, large, 2)
	known.keepReplacedSizes()
	testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", huge, nil)}, known.status.LastKnownGood.Sizes)

	unready := trialScope(autoscalingv1beta1.VerticalScalerStatus{}, noon, large, 2)
	unready.pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	unready.keepReplacedSizes()
	assert.Nil(t, unready.status.LastKnownGood)
}
