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

// The test restarts the manager with other arguments, so it is not parallel. The subtests follow one
// another.
func TestRecommendationsComeFromPrometheus(t *testing.T) {
	namespace := newNamespace(t)
	before, now, later := consumption{600, 700}, consumption{300, 400}, consumption{300, 900}
	withoutPast := newDeployment(newNamespace(t), "web", 1)
	setContainers(withoutPast, map[string]consumption{"app": now})
	server := startPrometheus(t, func(w io.Writer) error { return writePastDays(w, namespace, before) })
	restartManagerWith(t, "--prometheus-url="+server.URL(), "--prometheus-window="+usageWindow.String())

	comparison := createScaled(t, withoutPast)
	metricsAPI := newObserver(t, withoutPast.Namespace)

	t.Run("a new scaler's first recommendation is based on past days", func(t *testing.T) {
		scalers := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, namespace)
		deployment := newDeployment(namespace, "web", 1)
		setContainers(deployment, map[string]consumption{"app": now})
		scaler := createScaled(t, deployment)

		waitForWatchEvent(t, scalers, func(e watch.Event) bool {
			current, ok := e.Object.(*autoscalingv1beta1.VerticalScaler)
			if ok && current.Name == scaler.Name {
				scaler = current
			}
			return len(scaler.Status.Recommendations) > 0
		})

		first := recommendationFor(t, scaler, "app")
		want := targetFor(t, before, 1)
		assert.Equal(t, want.Cpu().String(), first.Target.Cpu().String())
		assert.Equal(t, memoryOf(want), memoryOf(first.Target))
		assert.Greater(t, first.Samples, int64(150), "an hour on each of three days, with a sample per minute")
		assert.Greater(t, first.Span.Duration, 47*time.Hour)
	})

	scaler := newScaler(namespace, "web", "web")
	t.Run("current usage adds to past usage", func(t *testing.T) {
		first := recommendationFor(t, refresh(t, scaler), "app").DeepCopy()
		annotate(t, &ownedPods(t, getDeployment(t, namespace, "web"))[0], usageOf("app", later)...)

		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			second := recommendationFor(c, scaler, "app")
			require.Equal(c, memoryOf(targetFor(c, later, 1)), memoryOf(second.Target), "today's peak")
			require.Equal(c, first.Target.Cpu().String(), second.Target.Cpu().String(), "past days have most samples")
			require.Greater(c, second.Samples, first.Samples)
		})
	})

	t.Run("the recommendation is the same as with the metrics API", func(t *testing.T) {
		waitForRecommendations(t, comparison, "app")
		got := recommendationFor(t, comparison, "app").Target
		eventually(t, func(c *assert.CollectT) {
			metricsAPI.observe(c)
			want := metricsAPI.targets()["app"]
			require.Equal(c, memoryOf(want), memoryOf(got))
			require.InEpsilon(c, want.Cpu().AsApproximateFloat64(), got.Cpu().AsApproximateFloat64(), 0.1)
		})
	})

	t.Run("the recommendation stays while Prometheus is stopped", func(t *testing.T) {
		target := memoryOf(refresh(t, scaler).Status.PodTarget)
		waitForReason := func(reason string, parts ...string) {
			t.Helper()
			eventually(t, func(c *assert.CollectT) {
				requireCondition(c, refresh(c, scaler).Status.Conditions, "Ready", metav1.ConditionTrue, reason)
				for _, part := range parts {
					require.Contains(c, conditionMessage(scaler, "Ready"), part)
				}
			})
			assert.Equal(t, target, memoryOf(scaler.Status.PodTarget))
		}

		require.NoError(t, server.Stop(t.Context()))
		waitForReason("MetricsUnavailable", server.URL(), "--prometheus-url")
		require.NoError(t, server.Start(t.Context()))
		waitForReason("Recommended")
	})
}

// writePastDays writes the usage of a pod of Deployment web: an hour on each of the last three days.
func writePastDays(w io.Writer, namespace string, used consumption) error {
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
