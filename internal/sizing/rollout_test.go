package sizing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// rolledOut returns a Deployment that is as its spec says.
func rolledOut(replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Generation, d.Status.ObservedGeneration = 3, 3
	d.Spec.Replicas = &replicas
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = replicas, replicas, replicas
	return d
}

// replacing has a Deployment replace its pods in a way.
func replacing(d *appsv1.Deployment, surge, unavailable string) *appsv1.Deployment {
	maxSurge, maxUnavailable := intstr.Parse(surge), intstr.Parse(unavailable)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &maxSurge, MaxUnavailable: &maxUnavailable},
	}
	return d
}

func recreating(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	return d
}

func TestADeploymentIsRolledOutOnlyWhenTheLastRolloutIsOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"it is over":                    {func(*appsv1.Deployment) {}, ""},
		"of one replica by default":     {func(d *appsv1.Deployment) { *d = *rolledOut(1); d.Spec.Replicas = nil }, ""},
		"the spec is not seen yet":      {func(d *appsv1.Deployment) { d.Generation++ }, autoscalingv1beta1.ReasonRolloutInProgress},
		"a pod is of the old template":  {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"an old pod is still there":     {func(d *appsv1.Deployment) { d.Status.Replicas++ }, autoscalingv1beta1.ReasonRolloutInProgress},
		"a pod is missing":              {func(d *appsv1.Deployment) { d.Status.Replicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"a pod is not available":        {func(d *appsv1.Deployment) { d.Status.AvailableReplicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"it is paused":                  {func(d *appsv1.Deployment) { d.Spec.Paused = true }, autoscalingv1beta1.ReasonDeploymentPaused},
		"it is paused in its midst":     {func(d *appsv1.Deployment) { d.Spec.Paused = true; d.Generation++ }, autoscalingv1beta1.ReasonDeploymentPaused},
		"it would need an outage later": {func(d *appsv1.Deployment) { recreating(d).Generation++ }, autoscalingv1beta1.ReasonRolloutInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolledOut(3)
			test.change(d)
			reason, again := RolloutHeld(d, nil, monday)
			assert.Equal(t, test.want, reason)
			assert.Zero(t, again, "an event of the Deployment tells when to look again")
		})
	}
}

func TestARolloutWithoutAPodThatRunsMeanwhileNeedsTheUsersLeave(t *testing.T) {
	t.Parallel()
	allowed := &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{AllowOutage: true}}
	for name, test := range map[string]struct {
		d      *appsv1.Deployment
		outage bool
	}{
		"Recreate":                                               {recreating(rolledOut(3)), true},
		"a single replica, without a strategy":                   {rolledOut(1), false},
		"a single replica, with surge":                           {replacing(rolledOut(1), "1", "0"), false},
		"a single replica, with any percentage of surge":         {replacing(rolledOut(1), "1%", "0"), false},
		"a single replica, without surge":                        {replacing(rolledOut(1), "0", "1"), true},
		"a single replica, with no percentage of surge":          {replacing(rolledOut(1), "0%", "25%"), true},
		"a single replica, which may go before there is another": {replacing(rolledOut(1), "1", "1"), true},
		"several, without surge":                                 {replacing(rolledOut(3), "0", "1"), false},
		"several, of which a percentage may go":                  {replacing(rolledOut(3), "0", "99%"), false},
		"several, which may all go":                              {replacing(rolledOut(3), "0", "3"), true},
		"several, which may all go in spite of surge":            {replacing(rolledOut(3), "1", "100%"), true},
		"several, of which so few percent may go that one does":  {replacing(rolledOut(2), "0", "25%"), false},
		"an amount that cannot be read":                          {replacing(rolledOut(3), "some", "1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if test.outage {
				want = autoscalingv1beta1.ReasonRolloutNeedsOutage
			}
			reason, again := RolloutHeld(test.d, nil, monday)
			assert.Equal(t, want, reason)
			assert.Zero(t, again)
			reason, _ = RolloutHeld(test.d, allowed, monday)
			assert.Empty(t, reason, "where the user allows it")
		})
	}
}

func TestTheNextRolloutWaitsForTheCooldown(t *testing.T) {
	t.Parallel()
	cooldown := func(seconds int32) *autoscalingv1beta1.Behavior {
		return &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{CooldownSeconds: &seconds}}
	}
	for name, test := range map[string]struct {
		behavior *autoscalingv1beta1.Behavior
		ago      time.Duration
		left     time.Duration
	}{
		"an hour by default":        {nil, 20 * time.Minute, 40 * time.Minute},
		"also with a mere behavior": {&autoscalingv1beta1.Behavior{}, time.Minute, 59 * time.Minute},
		"also with mere rules":      {&autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{}}, 0, time.Hour},
		"up to its last second":     {nil, time.Hour - time.Second, time.Second},
		"and not longer":            {nil, time.Hour, 0},
		"as long as the user says":  {cooldown(60), 20 * time.Second, 40 * time.Second},
		"a second at least":         {cooldown(0), 0, time.Second},
		"not more, if the user so":  {cooldown(0), time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if test.left > 0 {
				want = autoscalingv1beta1.ReasonRolloutCooldown
			}
			d := rolledOut(3)
			d.Spec.Template.Annotations = map[string]string{AnnotationRestartedAt: monday.Add(-test.ago).Format(time.RFC3339)}
			reason, again := RolloutHeld(d, test.behavior, monday)
			assert.Equal(t, want, reason)
			assert.Equal(t, test.left, again)
		})
	}
}

func TestTheCooldownBeginsWithTheLastRolloutWhoeverStartedIt(t *testing.T) {
	t.Parallel()
	ended := func(ago time.Duration) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Reason: reasonNewReplicaSetAvailable, LastUpdateTime: metav1.NewTime(monday.Add(-ago)),
		}
	}
	restarted := func(ago time.Duration) map[string]string {
		return map[string]string{AnnotationRestartedAt: monday.Add(-ago).Format(time.RFC3339)}
	}
	other := ended(0)
	other.Type = appsv1.DeploymentAvailable
	for name, test := range map[string]struct {
		revision  string
		restarted map[string]string
		condition appsv1.DeploymentCondition
		left      time.Duration
	}{
		"another's, of which the end is known": {"2", nil, ended(20 * time.Minute), 40 * time.Minute},
		"another's, after ours":                {"3", restarted(50 * time.Minute), ended(20 * time.Minute), 40 * time.Minute},
		"ours, which has ended":                {"2", restarted(50 * time.Minute), ended(49 * time.Minute), 11 * time.Minute},
		"ours, after the end of another's":     {"2", restarted(10 * time.Minute), ended(20 * time.Minute), 50 * time.Minute},
		"none: these are the first pods":       {"1", nil, ended(0), 0},
		"none that can be read":                {"2", map[string]string{AnnotationRestartedAt: "yesterday"}, other, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolledOut(3)
			d.Annotations = map[string]string{AnnotationRevision: test.revision}
			d.Spec.Template.Annotations = test.restarted
			d.Status.Conditions = []appsv1.DeploymentCondition{test.condition}
			_, again := RolloutHeld(d, nil, monday)
			assert.Equal(t, test.left, again)
		})
	}
}
