package verticalscaler

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestAnyRefusalOfNewPodsCausesAFallback(t *testing.T) {
	t.Parallel()
	const pod = `pods "web-6d4b75cb6d-x7k2p" is forbidden: `
	for name, test := range map[string]struct {
		refusal, reason, message string
		grace                    time.Duration
	}{
		"exceeded quota": {
			refusal: overQuota, reason: "QuotaExceeded",
			message: "exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1"},
		"quota for limits": {
			refusal: pod + "failed quota: team: must specify limits.cpu for: web", reason: "QuotaExceeded",
			message: "failed quota: team: must specify limits.cpu for: web"},
		"LimitRange for pods": {
			refusal: pod + "maximum cpu usage per Pod is 600m, but limit is 900m", reason: "CreationRefused",
			message: "maximum cpu usage per Pod is 600m, but limit is 900m"},
		"LimitRange for the ratio": {
			refusal: pod + "cpu max limit to request ratio per Pod is 2, but provided ratio is 4.000000", reason: "CreationRefused",
			message: "cpu max limit to request ratio per Pod is 2, but provided ratio is 4.000000"},
		"ValidatingAdmissionPolicy": {
			refusal: deniedByPolicy, reason: "CreationRefused",
			message: "ValidatingAdmissionPolicy 'max-cpu' with binding 'max-cpu' denied request: at most 200m"},
		"webhook with line breaks and the pod's name": {
			refusal: "admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\n" +
				"resource Pod/one/web-6d4b75cb6d-x7k2p was blocked due to the following policies \n\nmax-cpu:\n  max-cpu: at most 200m\n",
			reason: "CreationRefused",
			message: `admission webhook "validate.kyverno.svc-fail" denied the request: ` +
				`resource Pod/one/web was blocked due to the following policies max-cpu: max-cpu: at most 200m`},
		"webhook that does not answer": {
			refusal: `Internal error occurred: failed calling webhook "v.example.com": connect: connection refused`, reason: "CreationRefused",
			message: `Internal error occurred: failed calling webhook "v.example.com": connect: connection refused`, grace: refusalGracePeriod},
		"service account": {
			refusal: pod + `error looking up service account one/web: serviceaccount "web" not found`, reason: "CreationRefused",
			message: `error looking up service account one/web: serviceaccount "web" not found`, grace: refusalGracePeriod},
		"invalid": {
			refusal: `Pod "web-6d4b75cb6d-x7k2p" is invalid: spec.containers[0].resources: Invalid value`, reason: "CreationRefused",
			message: "spec.containers[0].resources: Invalid value", grace: refusalGracePeriod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, now := newFallbackTest(small), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
			w.deployment.Status.Conditions = newReplicaFailure(now, test.refusal)
			fallback, sizes := w.at(now)
			assert.Equal(t, test.grace > 0, fallback == nil)
			if test.grace > 0 {
				assert.Equal(t, w.recommended, sizes)
				_, left := w.scopeAt(now).obstacle(nil)
				assert.Equal(t, test.grace, left)
				fallback, sizes = w.at(now.Add(test.grace))
			}
			require.NotNil(t, fallback)
			assert.Equal(t, test.reason, fallback.Reason)
			assert.Equal(t, test.message, fallback.Message)
			assert.Equal(t, autoscalingv1beta1.FallbackTemplate, fallback.Size)
			assert.Empty(t, sizes)
		})
	}
}

func TestRefusalMessageIsShort(t *testing.T) {
	t.Parallel()
	message := refusalMessage("web", strings.Repeat("é", maxRefusalMessage))
	assert.Len(t, message, maxRefusalMessage+len("..."))
	assert.NotContains(t, refusalMessage("web", strings.Repeat("a", maxRefusalMessage-1)+"é"), "\uFFFD")
}

func TestPodsThatCannotBeDeletedCauseNoFallback(t *testing.T) {
	t.Parallel()
	w, now := newFallbackTest(small), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w.deployment.Status.Conditions = newReplicaFailure(now, deniedByPolicy)
	w.deployment.Status.Conditions[0].Reason = "FailedDelete"
	fallback, _ := w.at(now.Add(time.Hour))
	assert.Nil(t, fallback)
}

// Without the admission policy, new pods have the template's size anyway.
func TestRefusalCausesNoFallbackWithoutTheAdmissionPolicy(t *testing.T) {
	t.Parallel()
	w, now := newFallbackTest(small), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for refusal, reason := range map[string]string{deniedByPolicy: "", overQuota: "QuotaExceeded"} {
		w.deployment.Status.Conditions = newReplicaFailure(now, refusal)
		s := w.scopeAt(now)
		s.policyMissing = true
		found, _ := s.obstacle(nil)
		assert.Equal(t, reason, found.reason, "running pods that were resized use the quota")
	}
}

func TestRefusalFallsBackToTheLastKnownGoodSizeFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal string
		// template is the size of new pods after the fallback to the template.
		template []autoscalingv1beta1.ContainerSizing
	}{
		"quota": {overQuota, []autoscalingv1beta1.ContainerSizing{newSizing("web", only(corev1.ResourceMemory, testenv.Amounts("0", "256Mi")), nil)}},
		// A policy can require a minimum: no size is left.
		"policy": {deniedByPolicy, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
			w := newFallbackTest(small)
			w.setLastKnownGood(testenv.Amounts("300m", "200Mi"))
			w.deployment.Status.Conditions = newReplicaFailure(start, test.refusal)
			fallback, sizes := w.at(start)
			assert.Equal(t, autoscalingv1beta1.FallbackLastKnownGood, fallback.Size)
			testenv.AssertSameJSON(t, []autoscalingv1beta1.ContainerSizing{newSizing("web", testenv.Amounts("300m", "256Mi"), nil)}, sizes)
			assert.Contains(t, w.scopeAt(start).fallbackMessage(), "new pods get no more than the last known good size")

			// Pods with the last known good size are refused too.
			next, _ := w.at(start.Add(refusalGracePeriod - time.Second))
			assert.Equal(t, fallback, next)
			next, sizes = w.at(start.Add(refusalGracePeriod))
			assert.Equal(t, autoscalingv1beta1.FallbackTemplate, next.Size)
			assert.Equal(t, start.Add(refusalGracePeriod), next.Since.UTC())
			assert.Equal(t, fallback.Reason, next.Reason)
			testenv.AssertSameJSON(t, test.template, sizes)
			last, _ := w.at(start.Add(time.Hour))
			assert.Equal(t, next, last)
		})
	}
}

func TestFallbackKeepsTheLastKnownGoodSizeIfPodsAreCreatedWithIt(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w := newFallbackTest(small)
	w.setLastKnownGood(testenv.Amounts("300m", "768Mi"))
	w.deployment.Status.Conditions = newReplicaFailure(start, overQuota)
	fallback, _ := w.at(start)
	w.deployment.Status.Conditions = nil
	same, _ := w.at(start.Add(59 * time.Minute))
	assert.Equal(t, fallback, same)

	// A new refusal is of the last known good size, and has its own text.
	again := start.Add(59*time.Minute + time.Second)
	w.deployment.Status.Conditions = newReplicaFailure(again, deniedByPolicy)
	same, _ = w.at(again.Add(refusalGracePeriod - time.Second))
	assert.Equal(t, fallback, same)
	next, _ := w.at(again.Add(refusalGracePeriod))
	assert.Equal(t, autoscalingv1beta1.FallbackTemplate, next.Size)
	assert.Equal(t, "CreationRefused", next.Reason)
	assert.Equal(t, next.Since.Add(time.Hour), next.Until.Time)
}

// The time between two attempts of the ReplicaSet controller doubles, up to 1,000 seconds. It can
// have failed for long when the fallback starts, for example because the manager was stopped.
func TestFallbackWaitsForTheNextAttemptToCreatePods(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for failing, grace := range map[time.Duration]time.Duration{
		0: refusalGracePeriod, time.Minute: time.Minute, 10 * time.Minute: 10 * time.Minute, 24 * time.Hour: 1000 * time.Second,
	} {
		w := newFallbackTest(small)
		w.setLastKnownGood(testenv.Amounts("300m", "768Mi"))
		w.deployment.Status.Conditions = newReplicaFailure(start.Add(-failing), overQuota)
		w.at(start)
		fallback, _ := w.at(start.Add(grace - time.Second))
		assert.Equal(t, autoscalingv1beta1.FallbackLastKnownGood, fallback.Size, failing)
		_, left := w.scopeAt(start.Add(grace - time.Second)).obstacle(fallback)
		assert.Equal(t, time.Second, left, "the next reconcile")
		fallback, _ = w.at(start.Add(grace))
		assert.Equal(t, autoscalingv1beta1.FallbackTemplate, fallback.Size, failing)
	}
}

// Nothing would report that pods are now refused for their size, because the ReplicaSet keeps the
// text and the time of its first refusal. So the sizes come back when pods can be created.
func TestRefusalAtTheTemplateIsNotBlamedOnTheSize(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w := newFallbackTest(small)
	w.deployment.Status.Conditions = newReplicaFailure(start, deniedByPolicy)
	fallback, _ := w.at(start)
	const notTheCause = "with the Deployment's own resources too, so their size is not the cause"
	assert.NotContains(t, w.scopeAt(start.Add(refusalGracePeriod-time.Second)).fallbackMessage(), notTheCause)
	message := w.scopeAt(start.Add(refusalGracePeriod)).fallbackMessage()
	assert.Contains(t, message, notTheCause)
	assert.Contains(t, message, "only the first refusal (ValidatingAdmissionPolicy")
	waiting := w.scopeAt(start.Add(refusalGracePeriod))
	waiting.newPods.inTable = autoscalingv1beta1.PodSize{"web": {Requests: large}}
	assert.NotContains(t, waiting.fallbackMessage(), notTheCause, "the sizes are still in the table")

	for _, after := range []time.Duration{time.Hour, 2 * time.Hour, 100 * time.Hour} {
		same, sizes := w.at(start.Add(after))
		assert.Equal(t, fallback, same, "no write")
		assert.Empty(t, sizes)
		assert.Equal(t, message, w.scopeAt(start.Add(after)).fallbackMessage())
		assert.True(t, w.scopeAt(start.Add(after)).hasFallback())
	}
	w.deployment.Status.Conditions = nil
	next, sizes := w.at(start.Add(100*time.Hour + time.Second))
	assert.Nil(t, next)
	assert.Equal(t, w.recommended, sizes)
}

func TestQuotaRefusalIsNotBlamedOnTheSizeIfNoPodHasMoreThanItsTemplate(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	w := newFallbackTest(small)
	w.addRunning(large)
	w.deployment.Status.Conditions = newReplicaFailure(start, overQuota)
	w.at(start)
	later := start.Add(time.Hour)
	assert.Contains(t, w.scopeAt(later).fallbackMessage(), "running pods give back what they have above the template")
	w.pods[0].Spec.Containers[0].Resources.Requests = small
	assert.Contains(t, w.scopeAt(later).fallbackMessage(), "so their size is not the cause")
}

func TestRunningPodsGiveBackNoMoreThanNecessary(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	onlyCPU, both := []corev1.ResourceName{"cpu"}, []corev1.ResourceName{"cpu", "memory"}
	for name, test := range map[string]struct {
		change    func(*fallbackTest)
		after     time.Duration // Since the fallback.
		given     int
		resources []corev1.ResourceName
		next      time.Duration
	}{
		"grace period":           {after: 29 * time.Second},
		"as many as are missing": {after: 40 * time.Second, given: 2, resources: onlyCPU, next: 20 * time.Second},
		"twice as many":          {after: 60 * time.Second, given: 4, resources: onlyCPU, next: 30 * time.Second},
		"all":                    {after: 90 * time.Second, given: 6, resources: onlyCPU, next: 30 * time.Second},
		"the other resource":     {after: 120 * time.Second, given: 6, resources: both},
		"long after":             {after: 100 * time.Hour, given: 6, resources: both},
		"a quota that counts pods": {after: time.Hour, change: func(w *fallbackTest) {
			w.deployment.Status.Conditions = newReplicaFailure(start, strings.ReplaceAll(overQuota, "requests.cpu", "pods"))
		}},
		"not a quota":        {after: time.Hour, change: func(w *fallbackTest) { w.deployment.Status.Conditions = newReplicaFailure(start, deniedByPolicy) }},
		"updateMode Initial": {after: time.Hour, change: func(w *fallbackTest) { w.scaler.Spec.UpdateMode = "Initial" }},
		"scaleDown Disabled": {after: time.Hour, change: func(w *fallbackTest) {
			w.scaler.Spec.Behavior = &autoscalingv1beta1.Behavior{ScaleDown: &autoscalingv1beta1.ScaleDownRules{
				ScalingRules: autoscalingv1beta1.ScalingRules{SelectPolicy: "Disabled"}}}
		}},
		"last known good size": {after: time.Hour, change: func(w *fallbackTest) { w.scaler.Status.Fallback.Size = "LastKnownGood" }},
		"pods are created":     {after: time.Hour, change: func(w *fallbackTest) { w.deployment.Status.Conditions = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFallbackTest(small)
			for range 6 {
				w.addRunning(large)
			}
			w.deployment.Spec.Replicas = new(int32(8))
			w.deployment.Status.Conditions = newReplicaFailure(start, overQuota)
			w.at(start)
			if test.change != nil {
				test.change(w)
			}
			given, resources, next := w.scopeAt(start.Add(test.after)).toGiveBack()
			assert.Len(t, given, test.given)
			assert.Equal(t, test.resources, resources)
			assert.Equal(t, test.next, next)
		})
	}
}

func TestRunningPodsKeepWhatTheScalerDoesNotControl(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	names := []string{"off", "memory", "requests", "web"}
	var template, raised []corev1.Container
	for _, name := range names {
		template = append(template, newContainer(name, small, limits))
		raised = append(raised, newContainer(name, large, huge)) // "off" by its owner.
	}
	w := newWorkload(t, 1, template, func(w *workload) {
		w.pods[0].Spec.Containers = raised
		w.scaler.Spec.ContainerPolicies = append(fixedPolicies(large),
			autoscalingv1beta1.ContainerPolicy{ContainerName: "off", Mode: "Off"},
			autoscalingv1beta1.ContainerPolicy{ContainerName: "memory", ControlledResources: []autoscalingv1beta1.ControlledResource{"memory"}},
			autoscalingv1beta1.ContainerPolicy{ContainerName: "requests", ControlledValues: "RequestsOnly"})
	})
	since := metav1.NewTime(time.Now().Add(-10 * refusalGracePeriod)).Rfc3339Copy()
	w.setReplicaFailureSince(t, since.Time, strings.ReplaceAll(overQuota, "requests.cpu=500m", "requests.cpu=500m,limits.memory=2Gi"))
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))})
	// Memory is lowered when the lower CPU is in force.
	w.start(t).waitForResources(t, w.pods[0], 3,
		corev1.ResourceList{"cpu": small["cpu"], "memory": large["memory"]}, corev1.ResourceList{"cpu": limits["cpu"], "memory": huge["memory"]})
	testenv.RunPod(t, env, w.pods[0])
	w.waitForResources(t, w.pods[0], 3, small, limits)
	for i, want := range []corev1.ResourceRequirements{
		{Requests: large, Limits: huge},
		{Requests: corev1.ResourceList{"cpu": large["cpu"], "memory": small["memory"]}, Limits: corev1.ResourceList{"cpu": huge["cpu"], "memory": limits["memory"]}},
		{Requests: small, Limits: huge},
	} {
		w.waitForResources(t, w.pods[0], i, want.Requests, want.Limits)
	}
	w.assertResizes(t, 2)
}

// No event triggers the reconcile in which the refusal has lasted long enough.
func TestRefusalAtTheTemplateIsReportedWithoutAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	since := metav1.NewTime(time.Now().Add(3*time.Second - refusalGracePeriod)).Rfc3339Copy()
	w.setReplicaFailureSince(t, since.Time, deniedByPolicy)
	w.setFallback(t, &autoscalingv1beta1.Fallback{Reason: "CreationRefused", Since: since, Until: metav1.NewTime(since.Add(time.Minute))})
	w.start(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, message(testenv.Refresh(c, env, w.scaler).Status, "Applied"), "so their size is not the cause")
	}, testenv.Timeout, testenv.Poll)
	writes := len(w.writes.To("/status"))
	w.assertResizes(t, 0)
	assert.Len(t, w.writes.To("/status"), writes, "nothing changes any more")
	w.waitForSizing(t)
}

// A refusal that can be temporary triggers a fallback if it lasts, also without an event.
func TestTemporaryRefusalCausesAFallbackIfItLasts(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	since := time.Now().Add(5*time.Second - refusalGracePeriod).Truncate(time.Second)
	w.setReplicaFailureSince(t, since, `Internal error occurred: failed calling webhook "v.example.com": connection refused`)
	w.start(t).waitForSizing(t, newSizing("web", large, nil))
	w.waitForApplied(t, isFalse, "CreationRefused")
	assert.False(t, time.Now().Before(since.Add(refusalGracePeriod)), "before the grace period ended")
	w.waitForSizing(t)
}
