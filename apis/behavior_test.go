package apis_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func behavior(fields string) string { return "{deploymentName: web, behavior: {" + fields + "}}" }

func TestVerticalScalerRejectsInvalidBehavior(t *testing.T) {
	t.Parallel()
	const tolerance = "tolerance must be a fraction from 0 to 10, such as 0.1 for 10%"
	up := func(fields string) string { return behavior("scaleUp: {" + fields + "}") }
	down := func(fields string) string { return behavior("scaleDown: {" + fields + "}") }
	rollout := func(fields string) string { return behavior("rollout: {" + fields + "}") }
	assertRules(t, "VerticalScaler", []rule{
		{"a window is 0 or more", up("stabilizationWindowSeconds: 0"), up("stabilizationWindowSeconds: -1"),
			"scaleUp.stabilizationWindowSeconds in body should be greater than or equal to 0"},
		{"a window is at most a week", down("stabilizationWindowSeconds: 604800"), down("stabilizationWindowSeconds: 604801"),
			"scaleDown.stabilizationWindowSeconds in body should be less than or equal to 604800"},
		{"a tolerance is 0 or more", up("tolerance: 0"), up("tolerance: '-0.1'"), tolerance},
		{"a tolerance is at most 10", down("tolerance: 10"), down("tolerance: '10.1'"), tolerance},
		{"a tolerance is not a percentage", up("tolerance: '0.15'"), up("tolerance: '15%'"), "scaleUp.tolerance"},
		{"a tolerance may have the suffix m", up("tolerance: 150m"), up("tolerance: 150k"), tolerance},
		{"a tolerance has at most 16 characters", up("tolerance: '0.10000000000000'"), up("tolerance: '0.100000000000000'"), "may not be more than 16"},
		{"selectPolicy is Disabled", up("selectPolicy: Disabled"), up("selectPolicy: Max"), `supported values: "Disabled"`},
		{"maxRestartingPercent is at least 1", behavior("maxRestartingPercent: 1"), behavior("maxRestartingPercent: 0"),
			"maxRestartingPercent in body should be greater than or equal to 1"},
		{"maxRestartingPercent is at most 100", behavior("maxRestartingPercent: 100"), behavior("maxRestartingPercent: 101"),
			"maxRestartingPercent in body should be less than or equal to 100"},
		{"maxRestartingPercent is a number", behavior("maxRestartingPercent: 25"), behavior("maxRestartingPercent: 25%"),
			"maxRestartingPercent in body must be of type integer"},
		{"a cooldown is 0 or more", rollout("cooldownSeconds: 0"), rollout("cooldownSeconds: -1"),
			"rollout.cooldownSeconds in body should be greater than or equal to 0"},
		{"a cooldown is at most a week", rollout("cooldownSeconds: 604800"), rollout("cooldownSeconds: 604801"),
			"rollout.cooldownSeconds in body should be less than or equal to 604800"},
		{"a minimum history is at least zero", rollout("minimumHistorySeconds: 0"), rollout("minimumHistorySeconds: -1"),
			"rollout.minimumHistorySeconds in body should be greater than or equal to 0"},
		{"a minimum history is at most a week", rollout("minimumHistorySeconds: 604800"), rollout("minimumHistorySeconds: 604801"),
			"rollout.minimumHistorySeconds in body should be less than or equal to 604800"},
		{"allowOutage is a boolean", rollout("allowOutage: true"), rollout("allowOutage: maybe"), "must be of type boolean"},
		{"unknown rules are rejected", behavior("scaleUp: {}"), behavior("scaleSideways: {}"), `unknown field "spec.behavior.scaleSideways"`},
	})
}

func TestEmptyBehaviorGetsDefaults(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	created := func(fields string) *autoscalingv1beta1.Behavior {
		scaler := object(t, namespace, "VerticalScaler", behavior(fields))
		require.NoError(t, createStrictly(t, scaler))
		typed := &autoscalingv1beta1.VerticalScaler{}
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), typed))
		return typed.Spec.Behavior
	}
	assert.Equal(t, &autoscalingv1beta1.Behavior{MaxRestartingPercent: 25, TrialSeconds: new(int32(3600))}, created(""))
	got := created("scaleUp: {}, scaleDown: {}, rollout: {}")
	for _, rules := range []*autoscalingv1beta1.ScalingRules{got.ScaleUp, &got.ScaleDown.ScalingRules} {
		assert.Equal(t, int32(43200), *rules.StabilizationWindowSeconds)
		assert.Equal(t, "100m", rules.Tolerance.String())
		assert.Empty(t, rules.SelectPolicy)
	}
	assert.Equal(t, &autoscalingv1beta1.RolloutRules{CooldownSeconds: new(int32(3600)), MinimumHistorySeconds: new(int32(3600))}, got.Rollout)
	assert.Equal(t, int32(25), got.MaxRestartingPercent)
	assert.Equal(t, int32(86400), *got.ScaleDown.MinimumHistorySeconds)
	assert.Equal(t, int32(3600), *got.TrialSeconds)
}

func TestSizingDescriptionMentionsThePinAnnotation(t *testing.T) {
	status := definitions(t)["VerticalScaler"].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	assert.Contains(t, status.Properties["sizing"].Description, autoscalingv1beta1.AnnotationPin+`: "true"`)
}
