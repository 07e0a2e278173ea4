package recommendation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// untilStale is how long samples of soonStale are current: long enough to observe it.
const untilStale = 4 * time.Second

// soonStale returns a sample that is about to become stale. Get it when the manager has started.
func soonStale(pod *corev1.Pod, container string) usage.Sample {
	sample := testenv.SteadyUsage(pod, container, 0.2, 300, 1)[0]
	sample.Time = sample.Time.Add(-10*time.Minute + untilStale)
	return sample
}

// createRunningTarget is createTarget with a pod that runs.
func createRunningTarget(t *testing.T, namespace, name string, containers ...string) (*autoscalingv1beta1.VerticalScaler, *corev1.Pod) {
	t.Helper()
	scaler, pod := createTarget(t, namespace, name, containers...)
	testenv.RunPod(t, env, pod)
	return scaler, pod
}

// waitForMessage waits until RecommendationReady is MetricsUnavailable with a message.
func waitForMessage(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, message string) autoscalingv1beta1.VerticalScalerStatus {
	t.Helper()
	status := waitForReady(t, scaler, isTrue, "MetricsUnavailable")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "MetricsUnavailable")
	assert.Equal(t, message, testenv.ConditionMessage(status.Conditions, "RecommendationReady"))
	return status
}

func TestUsageThatHasStoppedIsReportedUntilItReturns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  func(web, api *corev1.Pod) []usage.Sample // Of the source when it has stopped.
		message string
		isAPI   bool // Whether the other target has usage.
	}{
		"empty answers": {
			func(_, _ *corev1.Pod) []usage.Sample { return nil },
			"No current usage: the source of usage returns no samples at all. Check metrics-server, or whether Prometheus scrapes the kubelets.", false,
		},
		"stale answers": {
			func(web, api *corev1.Pod) []usage.Sample {
				return []usage.Sample{soonStale(web, "app"), soonStale(api, "app")}
			},
			"No current usage: the source of usage returns only old samples. " +
				"Check metrics-server, or whether Prometheus scrapes the kubelets, and the clocks.", false,
		},
		"answers without one target": {
			func(_, api *corev1.Pod) []usage.Sample { return testenv.SteadyUsage(api, "app", 0.2, 300, 1) },
			`No current usage of container "app", although it runs. Check whether metrics-server, or Prometheus, reaches its nodes.`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			web, podOfWeb := createRunningTarget(t, namespace, "web", "app")
			api, podOfAPI := createRunningTarget(t, namespace, "api", "app")
			var source testenv.Meter
			var writes testenv.Writes
			m := startManager(t, namespace, &source, writes.Record)
			waitForReady(t, web, isFalse, "NoSamples")
			source.Set(soonStale(podOfWeb, "app"), soonStale(podOfAPI, "app"))
			before := waitForReady(t, web, isTrue, "Recommended")
			waitForReady(t, api, isTrue, "Recommended")
			source.Set(test.answer(podOfWeb, podOfAPI)...)
			status := waitForMessage(t, web, test.message)
			assert.Equal(t, before.Recommendations, status.Recommendations)
			assert.Equal(t, before.Sizing, status.Sizing)
			if test.isAPI {
				waitForReady(t, api, isTrue, "Recommended")
			} else {
				waitForMessage(t, api, test.message)
			}
			written := len(writes.To("/status"))
			source.WaitUntilLearned(t)
			source.WaitUntilLearned(t)
			assert.Len(t, writes.To("/status"), written, "it is reported once")
			m.Stop()

			// A new leader does not know better until it sees samples.
			var writesOfNext testenv.Writes
			var reconciles testenv.Reconciles
			startManager(t, namespace, &source, writesOfNext.Record, reconciles.Count)
			waitForReconcile(t, &reconciles, web)
			source.WaitUntilLearned(t)
			assert.Empty(t, writesOfNext.To("/status"))
			source.Set(slices.Concat(testenv.SteadyUsage(podOfWeb, "app", 0.2, 300, 1), testenv.SteadyUsage(podOfAPI, "app", 0.2, 300, 1))...)
			waitForReady(t, web, isTrue, "Recommended")
			waitForReady(t, api, isTrue, "Recommended")
		})
	}
}

func TestOneSilentContainerIsReported(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createRunningTarget(t, namespace, "web", "app", "log")
	var source testenv.Meter
	startManager(t, namespace, &source)
	waitForReady(t, scaler, isFalse, "NoSamples")
	source.Set(soonStale(pod, "log"), testenv.SteadyUsage(pod, "app", 0.2, 300, 1)[0])
	waitForReady(t, scaler, isTrue, "Recommended")
	waitForMessage(t, scaler,
		`No current usage of container "log", although it runs. Check whether metrics-server, or Prometheus, reaches its nodes.`)
}

func TestTargetWithoutRunningPodsIsNotSilent(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	stopped, podOfStopped := createTarget(t, namespace, "stopped", "app")
	fresh, podOfFresh := createRunningTarget(t, namespace, "fresh", "app")
	silent, podOfSilent := createRunningTarget(t, namespace, "silent", "app")
	empty, _ := createRunningTarget(t, namespace, "empty", "app")
	var source testenv.Meter
	startManager(t, namespace, &source)
	waitForReady(t, empty, isFalse, "NoSamples")
	source.Set(soonStale(podOfStopped, "app"), soonStale(podOfFresh, "app"), soonStale(podOfSilent, "app"))
	for _, scaler := range []*autoscalingv1beta1.VerticalScaler{stopped, fresh, silent} {
		waitForReady(t, scaler, isTrue, "Recommended")
	}
	source.Set(testenv.SteadyUsage(podOfFresh, "app", 0.2, 300, 1)...)
	waitForReady(t, silent, isTrue, "MetricsUnavailable")
	source.WaitUntilLearned(t)
	waitForReady(t, stopped, isTrue, "Recommended")
	waitForReady(t, fresh, isTrue, "Recommended")
	waitForReady(t, empty, isFalse, "NoSamples")

	// New pods of the silent target have time to be measured. Without pods there is no usage.
	next := testenv.Create(t, env, testenv.NewPod(namespace, "silent", "bbbbb", "app"))
	testenv.Delete(t, env, podOfSilent)
	testenv.RunPod(t, env, next)
	source.WaitUntilLearned(t)
	waitForReady(t, silent, isTrue, "MetricsUnavailable")
	testenv.Delete(t, env, next)
	waitForReady(t, silent, isFalse, "NoPods") // The template has other containers.
}
