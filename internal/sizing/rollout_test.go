package sizing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// rolledOut returns a Deployment whose rollout is complete.
func rolledOut(replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Generation, d.Status.ObservedGeneration = 3, 3
	d.Spec.Replicas = &replicas
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = replicas, replicas, replicas
	return d
}

// blocked returns why a Deployment cannot be rolled out, if only it and the behavior decide.
func blocked(d *appsv1.Deployment, behavior *autoscalingv1beta1.Behavior) (reason string, requeueAfter time.Duration) {
	r := &Rollout{Deployment: d, Behavior: behavior, Fits: true, OOMKilled: true}
	block := r.block(nil, monday)
	return block.Reason, block.RequeueAfter
}

// withRollingUpdate sets the strategy RollingUpdate.
func withRollingUpdate(d *appsv1.Deployment, surge, unavailable string) *appsv1.Deployment {
	maxSurge, maxUnavailable := intstr.Parse(surge), intstr.Parse(unavailable)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &maxSurge, MaxUnavailable: &maxUnavailable},
	}
	return d
}

// withRecreate sets the strategy Recreate.
func withRecreate(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	return d
}

func TestRolloutIsBlockedWhilePausedOrInProgress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"complete":                        {func(*appsv1.Deployment) {}, ""},
		"one replica by default":          {func(d *appsv1.Deployment) { *d = *rolledOut(1); d.Spec.Replicas = nil }, ""},
		"spec not observed yet":           {func(d *appsv1.Deployment) { d.Generation++ }, autoscalingv1beta1.ReasonRolloutInProgress},
		"pod of the old template":         {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"old pod still exists":            {func(d *appsv1.Deployment) { d.Status.Replicas++ }, autoscalingv1beta1.ReasonRolloutInProgress},
		"pod missing":                     {func(d *appsv1.Deployment) { d.Status.Replicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"pod not available":               {func(d *appsv1.Deployment) { d.Status.AvailableReplicas-- }, autoscalingv1beta1.ReasonRolloutInProgress},
		"paused":                          {func(d *appsv1.Deployment) { d.Spec.Paused = true }, autoscalingv1beta1.ReasonDeploymentPaused},
		"paused during a rollout":         {func(d *appsv1.Deployment) { d.Spec.Paused = true; d.Generation++ }, autoscalingv1beta1.ReasonDeploymentPaused},
		"in progress and needs an outage": {func(d *appsv1.Deployment) { withRecreate(d).Generation++ }, autoscalingv1beta1.ReasonRolloutInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolledOut(3)
			test.change(d)
			reason, requeueAfter := blocked(d, nil)
			assert.Equal(t, test.want, reason)
			assert.Zero(t, requeueAfter, "an event of the Deployment triggers the next reconcile")
		})
	}
}

func TestRolloutThatStopsAllPodsNeedsAllowOutage(t *testing.T) {
	t.Parallel()
	allowed := &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{AllowOutage: true}}
	for name, test := range map[string]struct {
		d      *appsv1.Deployment
		outage bool
	}{
		"Recreate":                                                      {withRecreate(rolledOut(3)), true},
		"one replica, default strategy":                                 {rolledOut(1), false},
		"one replica, surge":                                            {withRollingUpdate(rolledOut(1), "1", "0"), false},
		"one replica, surge of 1 %":                                     {withRollingUpdate(rolledOut(1), "1%", "0"), false},
		"one replica, no surge":                                         {withRollingUpdate(rolledOut(1), "0", "1"), true},
		"one replica, surge of 0 %":                                     {withRollingUpdate(rolledOut(1), "0%", "25%"), true},
		"one replica that may be unavailable":                           {withRollingUpdate(rolledOut(1), "1", "1"), true},
		"several replicas, no surge":                                    {withRollingUpdate(rolledOut(3), "0", "1"), false},
		"several replicas, 99 % may be unavailable":                     {withRollingUpdate(rolledOut(3), "0", "99%"), false},
		"several replicas, all may be unavailable":                      {withRollingUpdate(rolledOut(3), "0", "3"), true},
		"several replicas with surge, all may be unavailable":           {withRollingUpdate(rolledOut(3), "1", "100%"), true},
		"several replicas, no surge and a percentage below one replica": {withRollingUpdate(rolledOut(2), "0", "25%"), false},
		"invalid amount":                                                {withRollingUpdate(rolledOut(3), "some", "1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if test.outage {
				want = autoscalingv1beta1.ReasonRolloutNeedsOutage
			}
			reason, requeueAfter := blocked(test.d, nil)
			assert.Equal(t, want, reason)
			assert.Zero(t, requeueAfter)
			reason, _ = blocked(test.d, allowed)
			assert.Empty(t, reason, "with allowOutage")
		})
	}
}

func TestRolloutWaitsForCooldown(t *testing.T) {
	t.Parallel()
	cooldown := func(seconds int32) *autoscalingv1beta1.Behavior {
		return &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{CooldownSeconds: &seconds}}
	}
	for name, test := range map[string]struct {
		behavior  *autoscalingv1beta1.Behavior
		ago       time.Duration
		remaining time.Duration
	}{
		"an hour by default":                    {nil, 20 * time.Minute, 40 * time.Minute},
		"an hour with an empty behavior":        {&autoscalingv1beta1.Behavior{}, time.Minute, 59 * time.Minute},
		"an hour with empty rollout rules":      {&autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{}}, 0, time.Hour},
		"last second of the hour":               {nil, time.Hour - time.Second, time.Second},
		"after the hour":                        {nil, time.Hour, 0},
		"cooldown in the spec":                  {cooldown(60), 20 * time.Second, 40 * time.Second},
		"at least one second":                   {cooldown(0), 0, time.Second},
		"after one second with a cooldown of 0": {cooldown(0), time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if test.remaining > 0 {
				want = autoscalingv1beta1.ReasonRolloutCooldown
			}
			d := rolledOut(3)
			d.Spec.Template.Annotations = map[string]string{AnnotationRestartedAt: monday.Add(-test.ago).Format(time.RFC3339)}
			reason, requeueAfter := blocked(d, test.behavior)
			assert.Equal(t, want, reason)
			assert.Equal(t, test.remaining, requeueAfter)
		})
	}
}

func TestCooldownStartsWithLastRolloutOfAnyone(t *testing.T) {
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
		remaining time.Duration
	}{
		"other rollout with a known end":       {"2", nil, ended(20 * time.Minute), 40 * time.Minute},
		"other rollout after ours":             {"3", restarted(50 * time.Minute), ended(20 * time.Minute), 40 * time.Minute},
		"our rollout, ended":                   {"2", restarted(50 * time.Minute), ended(49 * time.Minute), 11 * time.Minute},
		"our rollout after the end of another": {"2", restarted(10 * time.Minute), ended(20 * time.Minute), 50 * time.Minute},
		"first revision":                       {"1", nil, ended(0), 0},
		"invalid annotation":                   {"2", map[string]string{AnnotationRestartedAt: "yesterday"}, other, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolledOut(3)
			d.Annotations = map[string]string{AnnotationRevision: test.revision}
			d.Spec.Template.Annotations = test.restarted
			d.Status.Conditions = []appsv1.DeploymentCondition{test.condition}
			_, requeueAfter := blocked(d, nil)
			assert.Equal(t, test.remaining, requeueAfter)
		})
	}
}

// Pods with the newest template that crash must not keep their Deployment from being rolled out
// for ever.
func TestCrashingDeploymentIsNotInProgressForever(t *testing.T) {
	t.Parallel()
	progressing := func(reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Reason: reason}
	}
	available := func(status corev1.ConditionStatus, ago time.Duration) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{
			Type: appsv1.DeploymentAvailable, Status: status, LastTransitionTime: metav1.NewTime(monday.Add(-ago)),
		}
	}
	for name, test := range map[string]struct {
		condition appsv1.DeploymentCondition
		change    func(*appsv1.Deployment)
		want      bool
	}{
		"pods start":                             {progressing("ReplicaSetUpdated"), nil, true},
		"the rollout had ended":                  {progressing(reasonNewReplicaSetAvailable), nil, false},
		"the deadline has passed":                {progressing(reasonProgressDeadlineExceeded), nil, false},
		"the deadline has passed with old pods":  {progressing(reasonProgressDeadlineExceeded), func(d *appsv1.Deployment) { d.Status.Replicas++ }, true},
		"the deadline was that of an older spec": {progressing(reasonProgressDeadlineExceeded), func(d *appsv1.Deployment) { d.Generation++ }, true},
		"no deadline, enough pods available":     {available(corev1.ConditionTrue, 0), nil, false},
		"no deadline, just unavailable":          {available(corev1.ConditionFalse, unknownProgress-time.Second), nil, true},
		"no deadline, unavailable for long":      {available(corev1.ConditionFalse, unknownProgress), nil, false},
		"nothing is known":                       {appsv1.DeploymentCondition{}, nil, true},
	} {
		d := rolledOut(3)
		d.Status.AvailableReplicas, d.Status.Conditions = 1, []appsv1.DeploymentCondition{test.condition}
		if test.change != nil {
			test.change(d)
		}
		assert.Equal(t, test.want, isInProgress(d, monday), name)
	}
}

func TestOutageAdviceFitsTheStrategy(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]*appsv1.Deployment{
		"its strategy is Recreate: RollingUpdate with maxUnavailable 0 keeps pods running": withRecreate(rolledOut(3)),
		"maxSurge 1 and maxUnavailable 0 keep pods running":                                withRollingUpdate(rolledOut(1), "0", "1"),
		"maxUnavailable 0 keeps pods running":                                              withRollingUpdate(rolledOut(1), "1", "1"),
	} {
		r := &Rollout{Deployment: d, Fits: true, OOMKilled: true}
		assert.Equal(t, Block{Reason: autoscalingv1beta1.ReasonRolloutNeedsOutage, Detail: want}, r.block(nil, monday))
	}
	followed := &Rollout{Deployment: withRollingUpdate(rolledOut(1), "1", "0"), Fits: true, OOMKilled: true}
	assert.Zero(t, followed.block(nil, monday), "the advice helps")
}

func TestRolloutIsBlockedIfItCannotHelp(t *testing.T) {
	t.Parallel()
	minimum := &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{MinimumHistorySeconds: new(int32(60))}}
	for name, test := range map[string]struct {
		change func(*Rollout)
		want   Block
	}{
		"no node fits":                {func(r *Rollout) { r.Fits = false }, Block{Reason: autoscalingv1beta1.ReasonNoNodeFits}},
		"the annotation is declared":  {func(r *Rollout) { r.DeclaredBy = "helm" }, Block{Reason: autoscalingv1beta1.ReasonRolloutAnnotationOwned, Detail: `field manager "helm"`}},
		"no history":                  {func(r *Rollout) { r.History = 0 }, Block{Reason: autoscalingv1beta1.ReasonRolloutNeedsHistory, RequeueAfter: time.Hour}},
		"too little history":          {func(r *Rollout) { r.History = 50 * time.Minute }, Block{Reason: autoscalingv1beta1.ReasonRolloutNeedsHistory, RequeueAfter: 10 * time.Minute}},
		"no history but an OOM kill":  {func(r *Rollout) { r.History, r.OOMKilled = 0, true }, Block{}},
		"enough history for the spec": {func(r *Rollout) { r.History, r.Behavior = time.Minute, minimum }, Block{}},
	} {
		r := &Rollout{Deployment: rolledOut(3), Fits: true, History: time.Hour}
		assert.Zero(t, r.block(nil, monday), name)
		test.change(r)
		assert.Equal(t, test.want, r.block(nil, monday), name)
	}
}
