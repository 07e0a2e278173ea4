package recommendation_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

const day = 24 * time.Hour

func TestPastAndPresentAddUpInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, isPastFirst := range map[string]bool{"past first": true, "present first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, pod := createTarget(t, namespace, "web", "app")
			present := testenv.SteadyUsage(pod, "app", 0.3, 300, 5)
			past := archive{samples: pastUsage(namespace), answers: make(chan struct{})}
			unusable := past.samples[0]
			unusable.Memory = -1
			past.samples = append(past.samples, unusable)
			var source testenv.Meter
			m := startBackfill(t, namespace, 8*day, &source, &past)
			waitForReady(t, scaler, isFalse, "NoSamples")
			all := recommendedFor(t, append(present, pastUsage(namespace)...), "app")
			if isPastFirst {
				close(past.answers)
				waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
				source.Set(present...)
			} else {
				source.Set(present...)
				waitForTargets(t, scaler, recommendedFor(t, present, "app")...)
				close(past.answers)
			}
			source.WaitUntilLearned(t)
			waitForTargets(t, scaler, all...)
			m.Stop()
			saved := checkpointed(t, scaler, "app")
			testenv.AssertSameJSON(t, all[0].UpperBound, recommended("app", saved, 1).UpperBound)
			assert.Equal(t, int64(505), saved.Recommend(recommender.DefaultPolicy(1)).Samples)
			assert.True(t, checkpoint(t, scaler).Data.Backfilled)
		})
	}
}

func TestPastDecaysWithHalfLifeOfSpec(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	const halfLife = time.Hour
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
		s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: halfLife}}
	})
	// The older usage decides with the default half-life, the newer usage with one hour.
	deleted := testenv.NewPod(namespace, "web", "zzzzz")
	samples := slices.Concat(testenv.SteadyUsage(deleted, "app", 0.9, 300, 100), testenv.SteadyUsage(deleted, "app", 0.1, 300, 60))
	for i := range samples {
		samples[i].Time = samples[i].Time.Add(-2 * time.Minute) // Not of the present.
	}
	for i := range 100 {
		samples[i].Time = samples[i].Time.Add(-12 * time.Hour)
	}
	history := recommender.New(halfLife)
	for _, sample := range samples {
		addSample(t, history, sample)
	}
	startBackfill(t, namespace, day, &testenv.Meter{}, &archive{samples: samples})
	waitForTargets(t, scaler, recommended("app", history, 1))
}

func TestPastOfPodsIsReadUpToFirstSample(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	present := testenv.SteadyUsage(pod, "app", 0.3, 300, 5)
	source := hangingSource{answers: make(chan struct{})}
	source.Set(present...)
	var past archive
	startBackfill(t, namespace, 2*day, &source, &past)
	require.Eventually(t, func() bool { return source.reads.Load() > 0 }, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(past.Queries()) > 0 }, testenv.Quiet, testenv.Poll, "the first sample is not known")
	close(source.answers)
	waitForReady(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return len(past.Queries()) > 0 }, testenv.Timeout, testenv.Poll)
	got := past.Queries()[0]
	assert.Equal(t, namespace, got.namespace)
	assert.Equal(t, "web-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}", got.pods)
	first := present[0].Time.Truncate(time.Second)
	assert.True(t, got.span.To.Equal(first.Add(-time.Minute)), "samples of the present are not read again")
	assert.Equal(t, time.Minute, got.span.Step)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		parts := past.Answered()
		assert.True(c, parts[len(parts)-1].From.Equal(first.Add(-2*day)))
	}, testenv.Timeout, testenv.Poll)
	assertReadOnce(t, past.Answered(), 2*day)
}

func TestPastIsRetriedAfterFailureAndReadOnce(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	past := archive{samples: pastUsage(namespace), failures: 1}
	m := startBackfill(t, namespace, 8*day, &testenv.Meter{}, &past)
	waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
	read := len(past.Queries())
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	waitForReady(t, scaler, isTrue, "Recommended")
	m.Stop()
	assert.Len(t, past.Queries(), read)
	assertReadOnce(t, past.Answered(), 8*day)
	assert.Equal(t, int64(500), savedSamples(t, scaler))

	var unused archive
	var reconciles testenv.Reconciles
	m = startBackfill(t, namespace, 8*day, &testenv.Meter{}, &unused, reconciles.Count)
	// Each of two controllers reconciles the scaler.
	require.Eventually(t, func() bool { return reconciles.Of(scaler) >= 2 }, testenv.Timeout, testenv.Poll)
	m.Stop()
	assert.Empty(t, unused.Queries(), "the past is in the checkpoint")
	testenv.AssertSameJSON(t, recommendedFor(t, pastUsage(namespace), "app")[0].Target,
		testenv.Refresh(t, env, scaler).Status.Recommendations[0].Target)
}

func TestPastIsReadAfterCheckpointsAreRestored(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	backfilled, _ := createTarget(t, namespace, "web", "app")
	saved := newCheckpoint(backfilled)
	saved.Data.Backfilled = true
	testenv.Create(t, env, saved)
	createTarget(t, namespace, "api", "app")
	var past archive
	var isFixed atomic.Bool
	var failed atomic.Int64
	startBackfill(t, namespace, day, &testenv.Meter{}, &past, failCheckpointReads(&isFixed, &failed))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, env, backfilled).Status.Conditions, "Ready", metav1.ConditionUnknown, "RecommendFailed")
		assert.Positive(c, failed.Load())
	}, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(past.Queries()) > 0 }, testenv.Quiet, testenv.Poll)

	isFixed.Store(true)
	require.Eventually(t, func() bool { return len(past.Queries()) > 0 }, testenv.Timeout, testenv.Poll)
	testenv.Edit(t, env, backfilled, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	waitForReady(t, backfilled, isFalse, "NoSamples")
	assert.Never(t, func() bool {
		return slices.ContainsFunc(past.Queries(), func(q query) bool { return strings.HasPrefix(q.pods, "web-") })
	}, testenv.Quiet, testenv.Poll, "the checkpoint has the past of web")
}

func TestPastOfSuspendedScalerIsReadWhenItContinues(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	past := archive{samples: pastUsage(namespace)}
	startBackfill(t, namespace, 8*day, &testenv.Meter{}, &past)
	status := waitForReady(t, scaler, isFalse, "Suspended")
	assert.Empty(t, status.Recommendations)
	assert.Empty(t, past.Queries())
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false })
	waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
}

func TestRecreatedScalerGetsItsPastAgain(t *testing.T) {
	t.Parallel()
	for name, isWatchCut := range map[string]bool{"while watched": false, "while the watch is cut": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			scaler, _ := createTarget(t, namespace, "web", "app")
			past := archive{samples: pastUsage(namespace)}
			connection := testenv.NewConnection()
			startBackfill(t, namespace, 8*day, &testenv.Meter{}, &past, connection.Use)
			waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
			read := len(past.Queries())

			if isWatchCut {
				connection.Cut()
			}
			testenv.Delete(t, env, scaler)
			recreated := testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))
			if isWatchCut {
				require.Eventually(t, func() bool { return connection.Refused() > 0 }, testenv.Timeout, testenv.Poll)
				connection.Restore()
			}
			waitForTargets(t, recreated, recommendedFor(t, pastUsage(namespace), "app")...)
			assert.Len(t, past.Queries(), 2*read)
		})
	}
}

func TestNewTargetGetsItsOwnPast(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	testenv.Create(t, env, testenv.NewDeployment(namespace, "api"))
	testenv.Create(t, env, testenv.NewPod(namespace, "api", "aaaaa", "app"))
	past := archive{samples: pastUsage(namespace)}
	startBackfill(t, namespace, 8*day, &testenv.Meter{}, &past)
	waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)

	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "api" })
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(past.Queries(), func(q query) bool { return strings.HasPrefix(q.pods, "api-") })
	}, testenv.Timeout, testenv.Poll)
}

func TestEditsDoNotShortenBackoffOfFailingPast(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	past := archive{samples: pastUsage(namespace), failures: math.MaxInt}
	var reconciles testenv.Reconciles
	startBackfill(t, namespace, day, &testenv.Meter{}, &past, reconciles.Count)
	require.Eventually(t, func() bool { return len(past.Queries()) > 0 }, testenv.Timeout, testenv.Poll)
	for i := range 50 {
		before := reconciles.Of(scaler)
		testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
			s.Annotations = map[string]string{"edit": strconv.Itoa(i)}
			s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{MarginPercent: new(int32(i))}
		})
		require.Eventually(t, func() bool { return reconciles.Of(scaler) > before }, testenv.Timeout, testenv.Poll)
	}
	// The backoff doubles from a second: ten queries take more than eight minutes.
	assert.Less(t, len(past.Queries()), 10)
	require.Eventually(t, func() bool { return len(past.Queries()) >= 2 }, testenv.Timeout, testenv.Poll, "the past is read again")
}

func TestPastIsReadFromTheNewestPartOnAcrossRestarts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	past := archive{samples: pastUsage(namespace)}
	first := refusingArchive{archive: &past, after: 5}
	m := startManagerWith(t, []string{namespace}, withHistory(8*day), recommendation.Source{Source: &testenv.Meter{}, Past: &first})
	require.Eventually(t, func() bool { return first.refused.Load() > 0 }, testenv.Timeout, testenv.Poll)
	waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
	m.Stop()
	assert.False(t, checkpoint(t, scaler).Data.Backfilled)

	startBackfill(t, namespace, 8*day, &testenv.Meter{}, &past)
	require.Eventually(t, func() bool { return len(past.Answered()) >= 9 }, testenv.Timeout, testenv.Poll)
	assertReadOnce(t, past.Answered(), 8*day)
}

func TestTooLargePartOfPastIsReadInSmallerOnes(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, _ := createTarget(t, namespace, "web", "app")
	past := archive{samples: pastUsage(namespace), tooMany: 10 * time.Hour}
	startBackfill(t, namespace, 4*day, &testenv.Meter{}, &past)
	waitForTargets(t, scaler, recommendedFor(t, pastUsage(namespace), "app")...)
	for _, part := range past.Answered() {
		assert.Less(t, part.To.Sub(part.From), 10*time.Hour)
	}
}

func TestFailingPastIsNotSaved(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	createTarget(t, namespace, "web", "app")
	past := archive{failures: math.MaxInt}
	var writes testenv.Writes
	m := startBackfill(t, namespace, day, &testenv.Meter{}, &past, writes.Record)
	require.Eventually(t, func() bool { return len(past.Queries()) > 1 }, testenv.Timeout, testenv.Poll)
	m.Stop()
	assert.Empty(t, writes.To("/verticalscalercheckpoints"))
}

func TestRefusedPastIsReportedAndRarelyRetried(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.3, 300, 1)...)
	past := archive{failures: math.MaxInt, err: &usage.Error{Advice: "the archive is locked, get a key", Cause: errClosed, IsPermanent: true}}
	m := startBackfill(t, namespace, 8*day, &source, &past)
	status := waitForReady(t, scaler, isTrue, "PastUsageRefused")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "PastUsageRefused")
	assert.Equal(t, "The recommendation lacks usage from before the creation of the VerticalScaler: the archive is locked, get a key.",
		testenv.ConditionMessage(status.Conditions, "Ready"))
	testenv.Edit(t, env, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	source.WaitUntilLearned(t)
	assert.Never(t, func() bool { return len(past.Queries()) > 1 }, 2*time.Second, testenv.Poll, "the backoff starts with a second")
	m.Stop()

	var writes testenv.Writes
	waiting := archive{answers: make(chan struct{})}
	startBackfill(t, namespace, 8*day, &source, &waiting, writes.Record)
	require.Eventually(t, func() bool { return len(waiting.Queries()) > 0 }, testenv.Timeout, testenv.Poll)
	source.WaitUntilLearned(t)
	assert.Empty(t, writes.To("/status"), "a new leader does not know better")
	close(waiting.answers)
	waitForReady(t, scaler, isTrue, "Recommended")
}
