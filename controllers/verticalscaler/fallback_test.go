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
	"example.com/upright/internal/testenv"
)

// overQuota is the message of a Deployment whose pods a ResourceQuota refuses.
const overQuota = `pods "web-6d4b75cb6d-x7k2p" is forbidden: exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1`

// setReplicaFailure writes to the Deployment's status that the API server refuses new pods.
func (w *workload) setReplicaFailure(t *testing.T, message string) {
	t.Helper()
	d := w.deployment(t)
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
	})
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
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
	d := w.deployment(t)
	d.Status.Conditions = nil
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
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
	w.setReplicaFailure(t, overQuota)
	since := metav1.NewTime(time.Now().Add(3*time.Second - quotaGracePeriod)).Rfc3339Copy()
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))})
	w.start(t).waitForResources(t, w.pods[0], 0, small, nil)
	assert.False(t, time.Now().Before(since.Add(quotaGracePeriod)), "resized before the grace period ended")
	w.waitForApplied(t, isFalse, "QuotaExceeded")
	w.assertResizes(t, 1)
}

func TestRunningPodsKeepTheirSizeIfAQuotaCountsPods(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, nil)}
	})
	w.setReplicaFailure(t, `pods "web-x" is forbidden: exceeded quota: cpu, requested: pods=1, used: pods=1, limited: pods=1`)
	since := metav1.NewTime(time.Now().Add(-10 * quotaGracePeriod)).Rfc3339Copy()
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))})
	w.start(t).waitForApplied(t, isFalse, "QuotaExceeded")
	w.assertResizes(t, 0)
}

func TestQuotaRefusesForSizeIfItNamesCPUOrMemory(t *testing.T) {
	t.Parallel()
	for requested, want := range map[string]bool{
		"requests.cpu=500m": true, "limits.memory=1Gi,pods=1": true, "count/pods=1,memory=1Gi": true, "cpu=1": true,
		"pods=1": false, "requests.nvidia.com/gpu=1": false, "requests.ephemeral-storage=1Gi": false,
	} {
		assert.Equal(t, want, isRefusedForSize("exceeded quota: cpu, requested: "+requested+", used: cpu=1, limited: cpu=1"), requested)
	}
	assert.False(t, isRefusedForSize(""))
}

func TestOtherRefusalsCauseNoFallback(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message  string
		template corev1.ResourceList
	}{
		"not for a quota":             {`pods "web-x" is forbidden: error looking up service account`, small},
		"for the template's own size": {overQuota, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", test.template, nil)}, useInitialMode)
			w.setReplicaFailure(t, test.message)
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
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "Unschedulable", Since: metav1.NewTime(until.Add(-time.Hour)), Until: until})
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
	scaler := testenv.NewScaler("one", "web", "web")
	scaler.Spec.ContainerPolicies = fixedPolicies(large)
	healthy := testenv.NewDeployment("one", "web")
	healthy.Spec.Template.Spec.Containers = []corev1.Container{newContainer("web", small, nil)}
	refused := healthy.DeepCopy()
	refused.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: overQuota,
	}}
	fallbackAt := func(now time.Time, d *appsv1.Deployment) *autoscalingv1beta1.Fallback {
		s := newScope(scaler, now)
		s.deployment = d
		_, fallback := s.fallBack([]autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)})
		return fallback
	}
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for _, hours := range []int{1, 2, 4, 8, 16, 24, 24} {
		fallback := fallbackAt(now, refused)
		require.NotNil(t, fallback)
		assert.InDelta(t, hours, fallback.Until.Sub(fallback.Since.Time).Hours(), 0)
		scaler.Status.Fallback = fallback
		now = fallback.Until.Time
		assert.False(t, isInForce(fallback, now))
		assert.Equal(t, fallback, fallbackAt(now, healthy), "its length is remembered for as long as it lasted")
	}
	dayLater := now.Add(24 * time.Hour)
	assert.Nil(t, fallbackAt(dayLater, healthy))
	assert.InDelta(t, 1, fallbackAt(dayLater, refused).Until.Sub(dayLater).Hours(), 0)
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
