package apis_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func recommendation(fields string) string {
	return "{deploymentName: web, recommendation: {" + fields + "}}"
}

func TestVerticalScalerRejectsInvalidRecommendationPolicy(t *testing.T) {
	t.Parallel()
	percentiles := func(lower, target, upper int) string {
		return recommendation(fmt.Sprintf("lowerPercentile: %d, targetPercentile: %d, upperPercentile: %d", lower, target, upper))
	}
	const (
		order    = "lowerPercentile must be at most targetPercentile, and targetPercentile must be at most upperPercentile: unset percentiles have defaults (50, 90, 95), so you may need to set all three"
		halfLife = "halfLife must be a duration from 1h to 144h in hours, minutes and seconds, such as 12h or 1h30m"
	)
	assertRules(t, "VerticalScaler", []rule{
		{"lowerPercentile is at least 1", percentiles(1, 2, 3), percentiles(0, 2, 3),
			"lowerPercentile in body should be greater than or equal to 1"},
		{"targetPercentile is at least 1", percentiles(1, 1, 3), percentiles(1, 0, 3),
			"targetPercentile in body should be greater than or equal to 1"},
		{"upperPercentile is at least 1", percentiles(1, 1, 1), percentiles(1, 1, 0),
			"upperPercentile in body should be greater than or equal to 1"},
		{"lowerPercentile is at most 100", percentiles(100, 100, 100), percentiles(101, 100, 100),
			"lowerPercentile in body should be less than or equal to 100"},
		{"targetPercentile is at most 100", percentiles(50, 100, 100), percentiles(50, 101, 100),
			"targetPercentile in body should be less than or equal to 100"},
		{"upperPercentile is at most 100", percentiles(50, 90, 100), percentiles(50, 90, 101),
			"upperPercentile in body should be less than or equal to 100"},
		{"lowerPercentile is at most targetPercentile", percentiles(90, 90, 95), percentiles(91, 90, 95), order},
		{"targetPercentile is at most upperPercentile", percentiles(50, 95, 95), percentiles(50, 96, 95), order},
		{"targetPercentile is at least the default lowerPercentile", recommendation("targetPercentile: 50"),
			recommendation("targetPercentile: 49"), order},
		{"targetPercentile is at most the default upperPercentile", recommendation("targetPercentile: 95"),
			recommendation("targetPercentile: 96"), order},
		{"a percentile is a whole number", recommendation("targetPercentile: 90"), recommendation("targetPercentile: 90.5"),
			"targetPercentile in body must be of type int32"},
		{"marginPercent is 0 or more", recommendation("marginPercent: 0"), recommendation("marginPercent: -1"),
			"marginPercent in body should be greater than or equal to 0"},
		{"marginPercent is at most 1000", recommendation("marginPercent: 1000"), recommendation("marginPercent: 1001"),
			"marginPercent in body should be less than or equal to 1000"},
		{"halfLife is at least 1h", recommendation("halfLife: 1h"), recommendation("halfLife: 59m59.9s"), halfLife},
		{"halfLife is at most 144h", recommendation("halfLife: 144h"), recommendation("halfLife: 144h0.1s"), halfLife},
		{"halfLife may have several units", recommendation("halfLife: 1h30m0.5s"), recommendation("halfLife: 1h 30m"), halfLife},
		{"halfLife does not support days", recommendation("halfLife: 48h"), recommendation("halfLife: 2d"), halfLife},
		{"halfLife has a unit", recommendation("halfLife: 5400s"), recommendation("halfLife: '24'"), halfLife},
		{"halfLife is not negative", recommendation("halfLife: 24h"), recommendation("halfLife: -24h"), halfLife},
		{"halfLife is not empty", recommendation("halfLife: 24h"), recommendation("halfLife: ''"), halfLife},
		{"halfLife is not a number", recommendation("halfLife: 24h"), recommendation("halfLife: 24"), "must be of type string"},
		{"halfLife has at most 16 characters", recommendation("halfLife: '" + strings.Repeat("0", 13) + "24h'"),
			recommendation("halfLife: '" + strings.Repeat("0", 14) + "24h'"), "may not be more than 16"},
		{"podMinimum.cpu is not negative", recommendation("podMinimum: {cpu: 0}"), recommendation("podMinimum: {cpu: -1m}"),
			"cpu must be from 0 to 1M cores: use an amount such as 250m"},
		{"podMinimum.memory is not negative", recommendation("podMinimum: {memory: 0}"), recommendation("podMinimum: {memory: -1Mi}"),
			"memory must be from 0 to 1Ei bytes: use an amount such as 64Mi"},
		{"podMinimum has only cpu and memory", recommendation("podMinimum: {cpu: 1, memory: 1Gi}"),
			recommendation("podMinimum: {disk: 1Gi}"), `unknown field "spec.recommendation.podMinimum.disk"`},
	})
}

func TestEmptyRecommendationPolicyGetsDefaults(t *testing.T) {
	t.Parallel()
	scaler := object(t, env.Namespace(t), "VerticalScaler", recommendation(""))
	require.NoError(t, createStrictly(t, scaler))
	typed := &autoscalingv1beta1.VerticalScaler{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), typed))
	assert.Equal(t, &autoscalingv1beta1.RecommendationPolicy{
		TargetPercentile: 90, LowerPercentile: 50, UpperPercentile: 95,
		MarginPercent: new(int32(15)), HalfLife: &metav1.Duration{Duration: 24 * time.Hour},
	}, typed.Spec.Recommendation)
}

func TestHalfLifeAcceptsGoDurations(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for _, halfLife := range []time.Duration{time.Hour, 90 * time.Minute, 36*time.Hour + 500*time.Millisecond, 144 * time.Hour} {
		scaler := &autoscalingv1beta1.VerticalScaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "a-"},
			Spec: autoscalingv1beta1.VerticalScalerSpec{
				DeploymentName: "web",
				Recommendation: &autoscalingv1beta1.RecommendationPolicy{HalfLife: &metav1.Duration{Duration: halfLife}},
			},
		}
		require.NoError(t, env.Client.Create(t.Context(), scaler))
		assert.Equal(t, halfLife, scaler.Spec.Recommendation.HalfLife.Duration)
	}
}

// If Go cannot decode a single object, every list request of the manager fails.
func TestPropertyAcceptedHalfLifeCanBeDecoded(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	random := rand.New(rand.NewSource(1))
	parts := []string{"1h", "24h", "30m", "90s", "0", "7", ".5", "1.h", "+", "-", " ", "\n", "h", "m", "s", "ms", "µs", "ns", "d", "e1h", "٣h", "9999999999h"}
	accepted := 0
	for range 300 {
		var halfLife strings.Builder
		for range 1 + random.Intn(4) {
			halfLife.WriteString(parts[random.Intn(len(parts))])
		}
		scaler := object(t, namespace, "VerticalScaler", recommendation(""))
		require.NoError(t, unstructured.SetNestedField(scaler.Object, halfLife.String(), "spec", "recommendation", "halfLife"))
		if createStrictly(t, scaler) == nil {
			accepted++
		}
	}
	require.Greater(t, accepted, 10)
	var scalers autoscalingv1beta1.VerticalScalerList
	require.NoError(t, env.Client.List(t.Context(), &scalers, client.InNamespace(namespace)))
	require.Len(t, scalers.Items, accepted)
	for _, scaler := range scalers.Items {
		halfLife := scaler.Spec.Recommendation.HalfLife.Duration
		assert.True(t, time.Hour <= halfLife && halfLife <= 144*time.Hour, halfLife)
	}
}
