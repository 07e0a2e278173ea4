package e2e_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// TestRecommendationsComeFromPrometheus stops the manager that reads the metrics API, since only
// one may act, and so is not parallel.
func TestRecommendationsComeFromPrometheus(t *testing.T) {
	namespace := newNamespace(t)
	before, now, later := consumption{600, 700}, consumption{300, 400}, consumption{300, 900}
	elsewhere := newDeployment(newNamespace(t), "web", 1) // It has no past.
	setContainers(elsewhere, map[string]consumption{"app": now})
	server := startPrometheus(t, func(w io.Writer) error { return writeDaysBefore(w, namespace, before) })
	restartManagerWith(t, "--prometheus-url="+server.URL(), "--prometheus-window="+usageWindow.String())

	byPrometheus := createScaled(t, elsewhere)
	metricsAPI := newObserver(t, elsewhere.Namespace)

	t.Run("the first recommendation of a new scaler is that of the days before it", func(t *testing.T) {
		containerStatuses := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, namespace)
		deployment := newDeployment(namespace, "web", 1)
		setContainers(deployment, map[string]consumption{"app": now})
		scaler := createScaled(t, deployment)

		waitForWatchEvent(t, containerStatuses, func(e watch.Event) bool {
			seen, ok := e.Object.(*autoscalingv1beta1.VerticalScaler)
			if ok && seen.Name == scaler.Name {
				scaler = seen
			}
			return len(scaler.Status.Recommendations) > 0
		})

		first := recommendationFor(t, scaler, "app")
		want := targetFor(t, before, 1)
		assert.Equal(t, want.Cpu().String(), first.Target.Cpu().String())
		assert.Equal(t, memoryOf(want), memoryOf(first.Target))
		assert.Greater(t, first.Samples, int64(150), "three hours on three days, a sample a minute")
		assert.Greater(t, first.Span.Duration, 47*time.Hour)
	})

	scaler := newScaler(namespace, "web", "web")
	t.Run("what is used now adds to it", func(t *testing.T) {
		first := recommendationFor(t, refresh(t, scaler), "app").DeepCopy()
		annotate(t, &ownedPods(t, getDeployment(t, namespace, "web"))[0], usageOf("app", later)...)

		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			adds := recommendationFor(c, scaler, "app")
			require.Equal(c, memoryOf(targetFor(c, later, 1)), memoryOf(adds.Target), "the peak of today")
			require.Equal(c, first.Target.Cpu().String(), adds.Target.Cpu().String(), "of the days before, which have more samples")
			require.Greater(c, adds.Samples, first.Samples)
		})
	})

	t.Run("a workload gets what it would get from the metrics API", func(t *testing.T) {
		waitForRecommendations(t, byPrometheus, "app")
		got := recommendationFor(t, byPrometheus, "app").Target
		eventually(t, func(c *assert.CollectT) {
			metricsAPI.observe(c)
			want := metricsAPI.targets()["app"]
			require.Equal(c, memoryOf(want), memoryOf(got))
			require.InEpsilon(c, want.Cpu().AsApproximateFloat64(), got.Cpu().AsApproximateFloat64(), 0.1)
		})
	})

	t.Run("a Prometheus that is stopped leaves what is recommended, and is read again when it is back", func(t *testing.T) {
		told := refresh(t, scaler).Status.DeepCopy()
		says := func(reason, message string) {
			t.Helper()
			eventually(t, func(c *assert.CollectT) {
				requireCondition(c, refresh(c, scaler).Status.Conditions, "Ready", metav1.ConditionTrue, reason)
				require.Contains(c, conditionMessage(scaler, "Ready"), message)
			})
			assert.Equal(t, memoryOf(told.PodTarget), memoryOf(scaler.Status.PodTarget))
		}

		require.NoError(t, server.Stop(t.Context()))
		says("MetricsUnavailable", "Prometheus at "+server.URL()+" cannot be reached, check --prometheus-url")
		require.NoError(t, server.Start(t.Context()))
		says("Recommended", "")
	})
}

// writeDaysBefore writes what a pod of Deployment web used for an hour on each of the three days
// before.
func writeDaysBefore(w io.Writer, namespace string, used consumption) error {
	const step = usageWindow / 2
	now := time.Now()
	labels := fmt.Sprintf(`namespace=%q,pod="web-6d4cf56db6-x2k9p",container="app"`, namespace)
	seconds := 0.0
	for day := 3; day > 0; day-- {
		from := now.AddDate(0, 0, -day)
		for at := from; at.Before(from.Add(time.Hour)); at = at.Add(step) {
			seconds += used.cpu / 1000 * step.Seconds()
			if err := writeScrape(w, labels, seconds, int64(used.memory)<<20, at); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(w, "# EOF")
	return err
}
