package controllers

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
	"example.com/upright/internal/usage"
)

func TestAfterARestartTheRecommendationIsTheSameAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.3, 700, 5)
	var source meter
	source.show(samples...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	before := scalerIs(t, scaler, isTrue, "Recommended")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, eventsOf(c, scaler, "Recommended"), 1) }, soon, often)
	m.stop()
	saved := checkpoint(t, scaler)

	var wrote writes // The source goes on giving what it gave.
	var passes passCounter
	m = startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, wrote.record, passes.use)
	require.Eventually(t, func() bool { return passes.over(scaler) > 0 }, soon, often)
	assert.Never(t, func() bool { return len(wrote.all()) > 0 }, aWhile, often)
	m.stop()
	assert.Empty(t, wrote.all(), "neither then")
	assert.Equal(t, before, refresh(t, scaler).Status)
	assert.Equal(t, saved.ResourceVersion, checkpoint(t, scaler).ResourceVersion)

	more := later(uses(pod, "app", 0.1, 900, 1))
	source.show(more...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	recommends(t, scaler, figuresOf(t, append(samples, more...), "app")...)
}

// elect has a manager compete for the lease of a namespace, and take it over soon.
func elect(namespace string) func(*ctrl.Options, *rest.Config) {
	return func(options *ctrl.Options, _ *rest.Config) {
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = true, "upright-manager", namespace
		options.RetryPeriod = new(100 * time.Millisecond)
		options.LeaderElectionReleaseOnCancel = true
	}
}

func TestANewLeaderRecommendsWhatTheOneBeforeDidAndWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	samples := uses(pod, "app", 0.3, 700, 5)
	var source, idle meter
	source.show(samples...)
	first := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, elect(namespace))
	before := scalerIs(t, scaler, isTrue, "Recommended")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, eventsOf(c, scaler, "Recommended"), 1) }, soon, often)

	var wrote writes
	var passes passCounter
	second := startManagerWith(t, namespace, newOptions(), usageSource{Source: &idle}, elect(namespace), wrote.record, passes.use)
	assert.Never(t, func() bool { return idle.count() > 0 }, aWhile, often, "one that does not lead does not read")
	assert.Empty(t, series(t, second, "upright_recommendation_cpu_cores"))
	assert.NotEmpty(t, series(t, first, "upright_recommendation_cpu_cores"))
	first.stop()
	require.Eventually(t, func() bool { return passes.over(scaler) > 0 }, soon, often)
	idle.settle(t)
	assert.NotEmpty(t, series(t, second, "upright_recommendation_cpu_cores"))
	assert.Empty(t, wrote.to("verticalscaler"))
	assert.Equal(t, before, refresh(t, scaler).Status)

	more := later(uses(pod, "app", 0.1, 900, 1))
	idle.show(more...)
	recommends(t, scaler, figuresOf(t, append(samples, more...), "app")...)
}

func TestAManagerThatIsKilledLosesWhatItLearnedSinceTheLastCheckpoint(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	saved := uses(pod, "app", 0.3, 300, 3)
	var source meter
	source.show(saved...)
	options := newOptions()
	options.Usage.CheckpointInterval = 200 * time.Millisecond
	line := newConnection()
	m := startManagerWith(t, namespace, options, usageSource{Source: &source}, line.use)
	scalerIs(t, scaler, isTrue, "Recommended")
	require.Eventually(t, func() bool { return savedSamples(t, scaler) == 3 }, soon, often)
	line.cut()
	source.show(uses(pod, "app", 0.6, 600, 1)...)
	source.settle(t)
	m.stop()

	after := later(uses(pod, "app", 0.1, 900, 1))
	source.show(after...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	recommends(t, scaler, figuresOf(t, append(saved, after...), "app")...)
}

func TestAManagerThatWasKilledBeforeItsFirstCheckpointStandsByWhatItRecommended(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.6, 600, 3)...)
	line := newConnection()
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, line.use)
	before := scalerIs(t, scaler, isTrue, "Recommended")
	line.cut()
	m.stop()

	source.show()
	var passes passCounter
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, passes.use)
	require.Eventually(t, func() bool { return passes.over(scaler) > 0 }, soon, often)
	source.settle(t)
	assert.Equal(t, before, refresh(t, scaler).Status)
	samples := uses(pod, "app", 0.2, 200, 1)
	source.show(samples...)
	recommends(t, scaler, figuresOf(t, samples, "app")...)
}

// logbook is what a manager logs.
type logbook struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logbook) use(options *ctrl.Options, _ *rest.Config) {
	options.Logger = funcr.New(func(prefix, line string) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		fmt.Fprintln(&l.text, prefix, line)
	}, funcr.Options{})
}

// lines returns the lines that have a part.
func (l *logbook) lines(part string) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.DeleteFunc(strings.Split(l.text.String(), "\n"), func(line string) bool { return !strings.Contains(line, part) })
}

func TestADamagedCheckpointIsLearnedAnewWithoutHarmToOthers(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	damaged, podOfDamaged := measured(t, namespace, "damaged", "app", "log")
	whole, podOfWhole := measured(t, namespace, "whole", "app")
	lost := uses(podOfDamaged, "app", 0.3, 300, 2)
	kept := uses(podOfDamaged, "log", 0.3, 300, 2)
	ofWhole := uses(podOfWhole, "app", 0.3, 300, 2)
	var source meter
	source.show(slices.Concat(lost, kept, ofWhole)...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	before := scalerIs(t, damaged, isTrue, "Recommended")
	scalerIs(t, whole, isTrue, "Recommended")
	m.stop()
	edit(t, checkpoint(t, damaged), func(c *autoscalingv1beta1.VerticalScalerCheckpoint) {
		c.Data.Containers[0].History[3]++
	})
	create(t, &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-nobodys"},
		Data:       autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: "web"},
	})

	source.show()
	var book logbook
	var passes passCounter
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, book.use, passes.use)
	require.Eventually(t, func() bool { return passes.over(damaged) > 0 }, soon, often)
	source.settle(t)
	assert.Equal(t, before, refresh(t, damaged).Status, "what was recommended stands")
	assert.Len(t, book.lines(fmt.Sprintf("restore container \\\"app\\\" of VerticalScalerCheckpoint %s/damaged", namespace)), 1)
	assert.Len(t, book.lines(namespace+"/a-nobodys has no controller among its owners"), 1)

	appAnew := later(uses(podOfDamaged, "app", 0.1, 200, 1))
	logMore, wholeMore := later(uses(podOfDamaged, "log", 0.1, 600, 1)), later(uses(podOfWhole, "app", 0.1, 600, 1))
	source.show(slices.Concat(appAnew, logMore, wholeMore)...)
	recommends(t, damaged,
		figures("app", historyOf(t, "app", appAnew...), 2), figures("log", historyOf(t, "log", append(kept, logMore...)...), 2))
	recommends(t, whole, figuresOf(t, append(ofWhole, wholeMore...), "app")...)
}

func TestTheCheckpointOfAScalerThatWasCreatedAnewIsNotTakenOver(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.8, 800, 2)...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isTrue, "Recommended")
	m.stop()
	remove(t, scaler) // Nothing collects its checkpoint here.
	anew := create(t, newScaler(namespace, "web", "web"))

	source.fail(errNoUsage) // So that no reading clears up first.
	m = startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	status := scalerIs(t, anew, isFalse, "MetricsUnavailable")
	assert.Empty(t, status.Recommendations)
	samples := uses(pod, "app", 0.2, 200, 1)
	source.show(samples...)
	recommends(t, anew, figuresOf(t, samples, "app")...)
	m.stop()
	assert.Equal(t, int64(1), savedSamples(t, anew))
	owners := checkpoint(t, anew).OwnerReferences
	require.Len(t, owners, 1)
	assert.Equal(t, anew.UID, owners[0].UID)
}

func TestAManagerOfSeveralNamespacesRestoresThemAll(t *testing.T) {
	t.Parallel()
	one, two := env.Namespace(t), env.Namespace(t)
	inOne, podInOne := measured(t, one, "web", "app")
	inTwo, podInTwo := measured(t, two, "web", "app")
	samples := map[string][]usage.Sample{one: uses(podInOne, "app", 0.3, 300, 2), two: uses(podInTwo, "app", 0.5, 500, 2)}
	var source meter
	source.show(slices.Concat(samples[one], samples[two])...)
	start := func() *manager {
		options := newOptions()
		options.Namespaces = []string{one, two}
		return startManagerWith(t, "", options, usageSource{Source: &source})
	}
	m := start()
	scalerIs(t, inOne, isTrue, "Recommended")
	scalerIs(t, inTwo, isTrue, "Recommended")
	m.stop()

	more := slices.Concat(later(uses(podInOne, "app", 0.1, 900, 1)), later(uses(podInTwo, "app", 0.1, 900, 1)))
	source.show(more...)
	start()
	recommends(t, inOne, figuresOf(t, append(samples[one], more[0]), "app")...)
	recommends(t, inTwo, figuresOf(t, append(samples[two], more[1]), "app")...)
}
