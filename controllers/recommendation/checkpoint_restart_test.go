package recommendation_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// waitForRecommendedEvent waits until the event about a scaler's recommendation is recorded.
func waitForRecommendedEvent(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, testenv.Events(c, env, scaler, "Recommended"), 1)
	}, testenv.Timeout, testenv.Poll)
}

func TestRestartKeepsRecommendationAndWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.3, 700, 5)
	var source testenv.Meter
	source.Set(samples...)
	m := startManager(t, namespace, &source)
	before := waitForReady(t, scaler, isTrue, "Recommended")
	waitForRecommendedEvent(t, scaler)
	m.Stop()
	saved := checkpoint(t, scaler)

	var writes testenv.Writes // The source returns the same samples as before.
	var reconciles testenv.Reconciles
	m = startManager(t, namespace, &source, writes.Record, reconciles.Count)
	waitForReconcile(t, &reconciles, scaler)
	assert.Never(t, func() bool { return len(writes.All()) > 0 }, testenv.Quiet, testenv.Poll)
	m.Stop()
	assert.Empty(t, writes.All(), "a manager that stops writes nothing either")
	assert.Equal(t, before, testenv.Refresh(t, env, scaler).Status)
	assert.Equal(t, saved.ResourceVersion, checkpoint(t, scaler).ResourceVersion)

	more := afterRestart(testenv.SteadyUsage(pod, "app", 0.1, 900, 1))
	source.Set(more...)
	startManager(t, namespace, &source)
	waitForTargets(t, scaler, recommendedFor(t, append(samples, more...), "app")...)
}

// electLeader makes a manager compete for a lease in a namespace.
func electLeader(namespace string) testenv.Change {
	return func(options *ctrl.Options, _ *rest.Config) {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "upright-manager", namespace
		options.RetryPeriod = new(100 * time.Millisecond)
		options.LeaderElectionReleaseOnCancel = true
	}
}

func TestNewLeaderKeepsRecommendationAndWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	samples := testenv.SteadyUsage(pod, "app", 0.3, 700, 5)
	var source, nextSource testenv.Meter
	source.Set(samples...)
	first := startManager(t, namespace, &source, electLeader(namespace))
	before := waitForReady(t, scaler, isTrue, "Recommended")
	waitForRecommendedEvent(t, scaler)

	var writes testenv.Writes
	var reconciles testenv.Reconciles
	second := startManager(t, namespace, &nextSource, electLeader(namespace), writes.Record, reconciles.Count)
	assert.Never(t, func() bool { return nextSource.Reads() > 0 }, testenv.Quiet, testenv.Poll, "only the leader reads usage")
	assert.Empty(t, second.Series(t, "upright_recommendation_cpu_cores"))
	assert.NotEmpty(t, first.Series(t, "upright_recommendation_cpu_cores"))
	first.Stop()
	waitForReconcile(t, &reconciles, scaler)
	nextSource.WaitUntilLearned(t)
	assert.NotEmpty(t, second.Series(t, "upright_recommendation_cpu_cores"))
	assert.Empty(t, writes.To("verticalscaler"))
	assert.Equal(t, before, testenv.Refresh(t, env, scaler).Status)

	more := afterRestart(testenv.SteadyUsage(pod, "app", 0.1, 900, 1))
	nextSource.Set(more...)
	waitForTargets(t, scaler, recommendedFor(t, append(samples, more...), "app")...)
}

func TestKilledManagerLosesOnlyUsageAfterLastCheckpoint(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	saved := testenv.SteadyUsage(pod, "app", 0.3, 300, 3)
	var source testenv.Meter
	source.Set(saved...)
	options := newOptions()
	options.CheckpointInterval = 200 * time.Millisecond
	connection := testenv.NewConnection()
	m := startManagerWith(t, []string{namespace}, options, recommendation.Source{Source: &source}, connection.Use)
	waitForReady(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 3 }, testenv.Timeout, testenv.Poll)
	connection.Cut()
	source.Set(testenv.SteadyUsage(pod, "app", 0.6, 600, 1)...)
	source.WaitUntilLearned(t)
	m.Stop()

	after := afterRestart(testenv.SteadyUsage(pod, "app", 0.1, 900, 1))
	source.Set(after...)
	startManager(t, namespace, &source)
	waitForTargets(t, scaler, recommendedFor(t, append(saved, after...), "app")...)
}

func TestRecommendationStaysIfManagerIsKilledBeforeFirstCheckpoint(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.6, 600, 3)...)
	connection := testenv.NewConnection()
	m := startManager(t, namespace, &source, connection.Use)
	before := waitForReady(t, scaler, isTrue, "Recommended")
	connection.Cut()
	m.Stop()

	source.Set()
	var reconciles testenv.Reconciles
	startManager(t, namespace, &source, reconciles.Count)
	waitForReconcile(t, &reconciles, scaler)
	source.WaitUntilLearned(t)
	assert.Equal(t, before, testenv.Refresh(t, env, scaler).Status)
	samples := testenv.SteadyUsage(pod, "app", 0.2, 200, 1)
	source.Set(samples...)
	waitForTargets(t, scaler, recommendedFor(t, samples, "app")...)
}

// logRecorder records the log of a manager.
type logRecorder struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Record is a testenv.Change that makes the manager use the log.
func (l *logRecorder) Record(options *ctrl.Options, _ *rest.Config) {
	options.Logger = funcr.New(func(prefix, line string) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		fmt.Fprintln(&l.text, prefix, line)
	}, funcr.Options{})
}

// Lines returns the lines that contain part.
func (l *logRecorder) Lines(part string) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.DeleteFunc(strings.Split(l.text.String(), "\n"), func(line string) bool { return !strings.Contains(line, part) })
}

func TestDamagedCheckpointDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	damaged, podOfDamaged := createTarget(t, namespace, "damaged", "app", "log")
	intact, podOfIntact := createTarget(t, namespace, "intact", "app")
	lost := testenv.SteadyUsage(podOfDamaged, "app", 0.3, 300, 2)
	kept := testenv.SteadyUsage(podOfDamaged, "log", 0.3, 300, 2)
	ofIntact := testenv.SteadyUsage(podOfIntact, "app", 0.3, 300, 2)
	var source testenv.Meter
	source.Set(slices.Concat(lost, kept, ofIntact)...)
	m := startManager(t, namespace, &source)
	before := waitForReady(t, damaged, isTrue, "Recommended")
	waitForReady(t, intact, isTrue, "Recommended")
	m.Stop()
	testenv.Edit(t, env, checkpoint(t, damaged), func(c *autoscalingv1beta1.VerticalScalerCheckpoint) {
		c.Data.Containers[0].History[3]++
	})
	testenv.Create(t, env, &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "without-owner"},
		Data:       autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: "web"},
	})

	source.Set()
	var logs logRecorder
	startManager(t, namespace, &source, logs.Record)
	status := waitForReady(t, damaged, isTrue, "HistoryDamaged")
	testenv.AssertCondition(t, status.Conditions, "RecommendationReady", isTrue, "HistoryDamaged")
	assert.Equal(t, `The saved usage of container "app" could not be read, so it is learned again. `+
		`VerticalScalerCheckpoint "damaged" keeps the unreadable data.`, testenv.ConditionMessage(status.Conditions, "Ready"))
	assert.Equal(t, before.Recommendations, status.Recommendations, "the published recommendation stays")
	assert.Len(t, logs.Lines(fmt.Sprintf("restore container \\\"app\\\" of VerticalScalerCheckpoint %s/damaged", namespace)), 1)
	assert.Len(t, logs.Lines(namespace+"/without-owner has no controller among its owners"), 1)

	newApp := afterRestart(testenv.SteadyUsage(podOfDamaged, "app", 0.1, 200, 1))
	newLog := afterRestart(testenv.SteadyUsage(podOfDamaged, "log", 0.1, 600, 1))
	newIntact := afterRestart(testenv.SteadyUsage(podOfIntact, "app", 0.1, 600, 1))
	source.Set(slices.Concat(newApp, newLog, newIntact)...)
	waitForTargets(t, damaged,
		recommended("app", historyOf(t, "app", newApp...), 2), recommended("log", historyOf(t, "log", append(kept, newLog...)...), 2))
	waitForTargets(t, intact, recommendedFor(t, append(ofIntact, newIntact...), "app")...)
}

func TestCheckpointIsNotRestoredForRecreatedScaler(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := createTarget(t, namespace, "web", "app")
	var source testenv.Meter
	source.Set(testenv.SteadyUsage(pod, "app", 0.8, 800, 2)...)
	m := startManager(t, namespace, &source)
	waitForReady(t, scaler, isTrue, "Recommended")
	m.Stop()
	testenv.Delete(t, env, scaler) // The checkpoint stays: there is no garbage collector here.
	recreated := testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))

	source.Fail(errUnavailable) // A successful reading would drop the history of the deleted scaler.
	m = startManager(t, namespace, &source)
	status := waitForReady(t, recreated, isFalse, "MetricsUnavailable")
	assert.Empty(t, status.Recommendations)
	samples := testenv.SteadyUsage(pod, "app", 0.2, 200, 1)
	source.Set(samples...)
	waitForTargets(t, recreated, recommendedFor(t, samples, "app")...)
	m.Stop()
	assert.Equal(t, int64(1), savedSamples(t, recreated))
	owners := checkpoint(t, recreated).OwnerReferences
	require.Len(t, owners, 1)
	assert.Equal(t, recreated.UID, owners[0].UID)
}

func TestCheckpointsOfAllNamespacesAreRestored(t *testing.T) {
	t.Parallel()
	one, two := env.Namespace(t), env.Namespace(t)
	inOne, podInOne := createTarget(t, one, "web", "app")
	inTwo, podInTwo := createTarget(t, two, "web", "app")
	samples := map[string][]usage.Sample{
		one: testenv.SteadyUsage(podInOne, "app", 0.3, 300, 2),
		two: testenv.SteadyUsage(podInTwo, "app", 0.5, 500, 2),
	}
	var source testenv.Meter
	source.Set(slices.Concat(samples[one], samples[two])...)
	start := func() *testenv.Manager {
		return startManagerWith(t, []string{one, two}, newOptions(), recommendation.Source{Source: &source})
	}
	m := start()
	waitForReady(t, inOne, isTrue, "Recommended")
	waitForReady(t, inTwo, isTrue, "Recommended")
	m.Stop()

	more := slices.Concat(afterRestart(testenv.SteadyUsage(podInOne, "app", 0.1, 900, 1)),
		afterRestart(testenv.SteadyUsage(podInTwo, "app", 0.1, 900, 1)))
	source.Set(more...)
	start()
	waitForTargets(t, inOne, recommendedFor(t, append(samples[one], more[0]), "app")...)
	waitForTargets(t, inTwo, recommendedFor(t, append(samples[two], more[1]), "app")...)
}
