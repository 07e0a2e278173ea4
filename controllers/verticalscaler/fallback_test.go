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

// overQuota is the message of a Deployment whose pods a ResourceQuota refuses.
const overQuota = `pods "web-6d4b75cb6d-x7k2p" is forbidden: exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1`

// setReplicaFailure writes to the Deployment's status that the API server refuses new pods.
func (w *workload) setReplicaFailure(t *testing.T, message string) {
	t.Helper()
	w.setReplicaFailureSince(t, time.Now(), message)
}

// setReplicaFailureSince writes to the Deployment's status that the API server has refused new
// pods for some time. message is that of the first refusal, as in a cluster.
func (w *workload) setReplicaFailureSince(t *testing.T, since time.Time, message string) {
	t.Helper()
	d := w.deployment(t)
	d.Status.Conditions = newReplicaFailure(since, message)
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
}

// clearReplicaFailure removes the failure, as happens when all pods can be created.
func (w *workload) clearReplicaFailure(t *testing.T) {
	t.Helper()
	d := w.deployment(t)
	d.Status.Conditions = nil
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
}

func newReplicaFailure(since time.Time, message string) []appsv1.DeploymentCondition {
	return []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
		LastTransitionTime: metav1.NewTime(since), LastUpdateTime: metav1.NewTime(since),
	}}
}

func TestQuotaFallbackLastsUntilTheSpecChanges(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	before := time.Now().Truncate(time.Second)
	w.setReplicaFailure(t, overQuota)

	applied := w.waitForApplied(t, isFalse, "QuotaExceeded")
	assert.Contains(t, applied, "raise the quota or lower maxAllowed")
	assert.Contains(t, applied, "(exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1)")
	assert.NotContains(t, applied, "x7k2p", "the message does not depend on the pod")
	fallback := w.scaler.Status.Fallback
	require.NotNil(t, fallback)
	assert.Contains(t, applied, "Until "+fallback.Until.UTC().Format(time.RFC3339))
	assert.WithinRange(t, fallback.Since.Time, before, time.Now())
	assert.Equal(t, time.Hour, fallback.Until.Sub(fallback.Since.Time))
	w.waitForSizing(t)
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), small, nil)
	w.waitForEvent(t, "QuotaExceeded")

	// When pods can be created, the Deployment no longer reports the quota.
	w.clearReplicaFailure(t)
	w.meter.WaitUntilLearned(t)
	w.waitForApplied(t, isFalse, "QuotaExceeded")
	assert.Equal(t, fallback, w.scaler.Status.Fallback)
	w.setPolicies(t, testenv.Amounts("200m", "512Mi"))
	w.waitForSizing(t, newSizing("web", testenv.Amounts("200m", "512Mi"), nil))
	w.waitForApplied(t, isTrue, "SizedAtCreation")
	assert.Nil(t, w.scaler.Status.Fallback)
}

func TestFallbackStillReducesNewPodsAndKeepsRunningPods(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", testenv.Amounts("1", "256Mi"), testenv.Amounts("2", "512Mi"))})
	w.setReplicaFailure(t, overQuota)
	w.start(t).waitForApplied(t, isFalse, "QuotaExceeded")
	w.assertResizes(t, 0)
	w.waitForSizing(t, newSizing("web", only(corev1.ResourceCPU, large), only(corev1.ResourceCPU, huge)))
}

func TestRunningPodsShrinkIfAQuotaRefusesPodsOfTemplateSize(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
	})
	since := metav1.NewTime(time.Now().Add(3*time.Second - refusalGracePeriod)).Rfc3339Copy()
	w.setReplicaFailureSince(t, since.Time, overQuota)
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))})
	w.start(t).waitForResources(t, w.pods[0], 0, testenv.Amounts("100m", "1Gi"), nil)
	assert.False(t, time.Now().Before(since.Add(refusalGracePeriod)), "resized before the grace period ended")
	w.waitForApplied(t, isFalse, "QuotaExceeded")
	w.assertResizes(t, 1)
}

func TestRunningPodsKeepTheirSizeIfAQuotaCountsPods(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
	})
	since := metav1.NewTime(time.Now().Add(-10 * refusalGracePeriod)).Rfc3339Copy()
	w.setReplicaFailureSince(t, since.Time, `pods "web-x" is forbidden: exceeded quota: cpu, requested: pods=1, used: pods=1, limited: pods=1`)
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))})
	w.start(t).waitForApplied(t, isFalse, "QuotaExceeded")
	w.assertResizes(t, 0)
}

func TestQuotaRefusesForTheResourcesThatItNames(t *testing.T) {
	t.Parallel()
	for requested, want := range map[string][]corev1.ResourceName{
		"requests.cpu=500m": {"cpu"}, "limits.memory=1Gi,pods=1": {"memory"}, "count/pods=1,memory=1Gi": {"memory"}, "cpu=1": {"cpu"},
		"limits.cpu=1,requests.memory=1Gi": {"cpu", "memory"},
		"pods=1":                           nil, "requests.nvidia.com/gpu=1": nil, "requests.ephemeral-storage=1Gi": nil,
	} {
		assert.Equal(t, want, refusedResources("exceeded quota: cpu, requested: "+requested+", used: cpu=1, limited: cpu=1"), requested)
	}
	assert.Empty(t, refusedResources(""))
}

// A refusal of pods that have the template's size is not for their size.
func TestRefusalCausesNoFallbackIfTheSizeIsTheTemplates(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{"quota": overQuota, "policy": deniedByPolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", large, nil)}, useInitialMode)
			w.setReplicaFailure(t, refusal)
			w.start(t).waitForApplied(t, isTrue, "SizedAtCreation")
			w.waitForSizing(t, newSizing("web", large, nil))
			assert.Nil(t, w.scaler.Status.Fallback)
		})
	}
}

func TestFallbackOutlivesTheManagerAndExpires(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	until := metav1.NewTime(time.Now().Add(5 * time.Second)).Rfc3339Copy()
	w.setFallback(t, &autoscalingv1beta1.Fallback{
		Reason: "Unschedulable", Message: lacksCPU, Since: metav1.NewTime(until.Add(-time.Hour)), Until: until,
	})
	w.start(t).waitForApplied(t, isFalse, "Unschedulable")
	assert.Equal(t, until.Unix(), w.scaler.Status.Fallback.Until.Unix())
	w.waitForSizing(t, newSizing("web", large, nil))
	assert.False(t, time.Now().Before(until.Time), "ended before it expired")
	w.waitForApplied(t, isTrue, "SizedAtCreation")
	w.setReplicaFailure(t, overQuota)
	w.waitForApplied(t, isFalse, "QuotaExceeded")
	next := w.scaler.Status.Fallback
	assert.Equal(t, 2*time.Hour, next.Until.Sub(next.Since.Time), "the next fallback is longer")
}

func TestRepeatedFallbacksDoubleUpToOneDay(t *testing.T) {
	t.Parallel()
	w := newFallbackTest(small)
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for _, hours := range []int{1, 2, 4, 8, 16, 24, 24} {
		w.deployment.Status.Conditions = newReplicaFailure(now, overQuota)
		fallback, _ := w.at(now)
		require.NotNil(t, fallback)
		assert.InDelta(t, hours, fallback.Until.Sub(fallback.Since.Time).Hours(), 0)
		now = fallback.Until.Time
		w.deployment.Status.Conditions = nil
		next, sizes := w.at(now)
		assert.Equal(t, fallback, next, "its length is remembered for as long as it lasted")
		assert.Equal(t, w.recommended, sizes)
	}
	now = now.Add(24 * time.Hour)
	next, _ := w.at(now)
	assert.Nil(t, next)
	w.deployment.Status.Conditions = newReplicaFailure(now, overQuota)
	next, _ = w.at(now)
	assert.InDelta(t, 1, next.Until.Sub(now).Hours(), 0)
}

func TestPinnedSizeStaysIfAQuotaRefusesIt(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	testenv.Edit(t, env, w.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) {
		scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
	})
	w.setReplicaFailure(t, overQuota)
	assert.Contains(t, w.waitForApplied(t, isFalse, "QuotaExceeded"), "or remove the annotation "+autoscalingv1beta1.AnnotationPin)
	w.waitForSizing(t, newSizing("web", large, nil))
	assert.Nil(t, w.scaler.Status.Fallback)
}

// A fallback belongs to one Deployment and one spec.
func TestFallbackEndsIfNothingIsSized(t *testing.T) {
	t.Parallel()
	fallback := &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Until: metav1.NewTime(time.Now().Add(time.Hour))}
	for name, change := range map[string]func(*autoscalingv1beta1.VerticalScaler){
		"updateMode Off":     func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.UpdateMode = "Off" },
		"suspended":          func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.Suspend = true },
		"another Deployment": func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.DeploymentName = "other" },
	} {
		scaler := testenv.NewScaler("one", "web", "web")
		scaler.Status = autoscalingv1beta1.VerticalScalerStatus{
			DeploymentName: "web", Fallback: fallback,
			Recommendations: []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "web", Target: large}},
		}
		assert.Equal(t, fallback, publishedStatus(scaler, time.Now(), nil).Fallback, "while the target does not exist")
		change(scaler)
		assert.Nil(t, publishedStatus(scaler, time.Now(), nil).Fallback, name)
	}
}

// Without a size, running pods would have what the template requests. A fallback of new pods must not
// keep them from that.
func TestRunningPodsAreRaisedUpToTheTemplateDuringAFallback(t *testing.T) {
	t.Parallel()
	need := testenv.Amounts("250m", "8Gi")
	for size, want := range map[string]corev1.ResourceList{
		"less than the template": testenv.Amounts("500m", "2Gi"), "as much as the template": nil,
	} {
		has := map[bool]corev1.ResourceList{true: large, false: huge}[want != nil]
		status := autoscalingv1beta1.VerticalScalerStatus{Fallback: &autoscalingv1beta1.Fallback{
			Reason: "CreationRefused", Size: "Template", Since: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(time.Hour)),
		}}
		s := trialScope(status, noon.Add(time.Minute), has, 1)
		s.scaler.Spec.Behavior = &autoscalingv1beta1.Behavior{ScaleDown: &autoscalingv1beta1.ScaleDownRules{MinimumHistorySeconds: new(int32(0))}}
		s.status.Recommendations[0].Target, s.status.Recommendations[0].LowerBound = need, need
		s.workload = &history.WorkloadHistory{}
		s.setSizing()
		require.True(t, s.hasFallback())
		s.pods[0].Status.ContainerStatuses[0] = corev1.ContainerStatus{
			Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: &s.pods[0].Spec.Containers[0].Resources,
		}
		due, _ := s.newDueSizes(s.sizesUpToTemplate()).of(&s.pods[0])
		plan := sizing.PlanRaise(&s.pods[0], due)
		if want == nil {
			assert.Empty(t, plan.Containers, size)
			continue
		}
		require.Len(t, plan.Containers, 1, size)
		testenv.AssertSameJSON(t, want, plan.Containers[0].Resources.Requests)
	}
}
