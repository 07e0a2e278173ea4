package sizing

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// rolloutDay is a Deployment whose pods cannot be resized, over a simulated day. A rollout takes a
// minute.
type rolloutDay struct {
	Rollout
	// The cause of the next rollout.
	cause RolloutCause
	// isEffective is true if new pods get their size.
	isEffective bool
	// isReverted is true if an operator removes the annotation of each rollout.
	isReverted bool
	// losesStatus is true if the manager stops each time after it has set the annotation, before
	// it writes the status.
	losesStatus bool
	// change changes the world each hour.
	change func(day *rolloutDay, hour int)

	starts  []time.Duration // When rollouts started.
	reasons map[string]int  // How many minutes had each reason.
	detail  string
	writes  int // Changes of the status.
}

func newRolloutDay(reason string, changes ...func(*rolloutDay)) *rolloutDay {
	day := &rolloutDay{
		Rollout: Rollout{Deployment: rolledOut(3), Fits: true, OOMKilled: true, IsInTable: true, NewestStuck: monday.Add(-time.Hour)},
		reasons: map[string]int{},
		cause: RolloutCause{Reason: reason, Deployment: "uid", Template: "template", Policy: "policy", Sizes: []autoscalingv1beta1.ContainerSizing{
			{ContainerName: "web", Requests: list("100m", "100Mi")},
		}},
	}
	for _, change := range changes {
		change(day)
	}
	return day
}

// run reconciles every 10 seconds, as a scaler that many events trigger.
func (day *rolloutDay) run() *rolloutDay {
	var startedAt time.Time
	for after := time.Duration(0); after < 24*time.Hour; after += 10 * time.Second {
		now := monday.Add(after)
		if day.change != nil && after%time.Hour == 0 {
			day.change(day, int(after/time.Hour))
		}
		isReplaced := !startedAt.IsZero() && now.Sub(startedAt) >= time.Minute
		if isReplaced && day.Deployment.Status.UpdatedReplicas != 3 {
			day.Deployment.Status.UpdatedReplicas = 3
			day.NewestStuck = now
		}
		isSized := day.isEffective && isReplaced
		day.Reason, day.Cause, day.IsSettled = day.cause.Reason, day.cause.String(), isSized
		if isSized {
			day.Reason = ""
		}
		step := day.Next(now)
		day.reasons[step.Block.Reason]++
		day.detail = step.Block.Detail
		status := step.Status
		if step.Request != nil {
			status = step.Request
		}
		if step.Start && restartedAt(day.Deployment) != status.RequestedAt.Time {
			day.starts = append(day.starts, after)
			startedAt = now
			day.Deployment.Spec.Template.Annotations = map[string]string{AnnotationRestartedAt: status.RequestedAt.Format(time.RFC3339)}
			day.Deployment.Status.UpdatedReplicas = 0
			if day.isReverted {
				day.Deployment.Spec.Template.Annotations = nil
			}
			if day.losesStatus {
				status = day.Last
			} else {
				status.State = autoscalingv1beta1.RolloutStarted
			}
		}
		if !assert.ObjectsAreEqual(day.Last, status) {
			day.writes++
		}
		day.Last = status
	}
	return day
}

// drift changes the amounts of the size a little every hour.
func drift(day *rolloutDay) {
	day.change = func(day *rolloutDay, hour int) {
		day.cause.Sizes[0].Requests = list(strconv.Itoa(100+hour)+"m", "100Mi")
	}
}

func withoutCooldown(day *rolloutDay) {
	day.Behavior = &autoscalingv1beta1.Behavior{Rollout: &autoscalingv1beta1.RolloutRules{CooldownSeconds: new(int32(0))}}
}

func TestRolloutWithoutEffectHappensOnceADay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rolloutDay){
		"policy without effect":          func(*rolloutDay) {},
		"the size drifts":                drift,
		"no cooldown":                    withoutCooldown,
		"no cooldown, the size drifts":   func(day *rolloutDay) { withoutCooldown(day); drift(day) },
		"an operator reverts it":         func(day *rolloutDay) { withoutCooldown(day); day.isReverted = true },
		"a manager that stops each time": func(day *rolloutDay) { withoutCooldown(day); day.losesStatus = true },
		"with a progress deadline": func(day *rolloutDay) {
			day.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reasonNewReplicaSetAvailable}}
		},
	} {
		for _, reason := range reasonsWithoutAmounts {
			day := newRolloutDay(reason, change).run()
			assert.Len(t, day.starts, 1, name)
			assert.Equal(t, autoscalingv1beta1.RolloutIneffective, day.Last.State, name)
			assert.Equal(t, int32(1), day.Last.Ineffective, name)
			assert.Greater(t, day.reasons[autoscalingv1beta1.ReasonRolloutIneffective], 8000, name)
			assert.LessOrEqual(t, day.writes, 4, name)
			if day.isReverted {
				assert.Contains(t, day.detail, "somebody removed or replaced the annotation")
			} else {
				assert.Empty(t, day.detail, name)
			}
		}
	}
}

func TestRolloutForOtherAmountsWaitsTwiceAsLongEachTime(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*rolloutDay){drift, func(day *rolloutDay) { withoutCooldown(day); drift(day) }} {
		day := newRolloutDay(autoscalingv1beta1.ReasonResizeInfeasible, change).run()
		var hours []int
		for _, start := range day.starts {
			hours = append(hours, int(start.Round(time.Hour)/time.Hour))
		}
		assert.Equal(t, []int{0, 2, 6, 14}, hours)
	}
	day := newRolloutDay(autoscalingv1beta1.ReasonResizeInfeasible).run()
	assert.Len(t, day.starts, 1, "the same amounts")
}

func TestChangedTemplateOrPolicyGetsAnotherRollout(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*RolloutCause){
		"template":   func(cause *RolloutCause) { cause.Template = "other" },
		"policy":     func(cause *RolloutCause) { cause.Policy = "other" },
		"Deployment": func(cause *RolloutCause) { cause.Deployment = "other" },
		"containers": func(cause *RolloutCause) {
			cause.Sizes = append(cause.Sizes, autoscalingv1beta1.ContainerSizing{ContainerName: "log", Requests: list("1", "")})
		},
	} {
		day := newRolloutDay(autoscalingv1beta1.ReasonQoSClassFixed, func(day *rolloutDay) {
			day.change = func(day *rolloutDay, hour int) {
				if hour == 12 {
					change(&day.cause)
				}
			}
		}).run()
		assert.Len(t, day.starts, 2, name)
	}
}

// Somebody deploys a new version every hour, and each time no pod gets its size.
func TestRolloutsForEveryNewVersionBecomeRare(t *testing.T) {
	t.Parallel()
	day := newRolloutDay(autoscalingv1beta1.ReasonQoSClassFixed, func(day *rolloutDay) {
		day.change = func(day *rolloutDay, hour int) { day.cause.Template = strconv.Itoa(hour) }
	}).run()
	assert.LessOrEqual(t, len(day.starts), 4)
}

func TestEffectiveRolloutIsForgotten(t *testing.T) {
	t.Parallel()
	day := newRolloutDay(autoscalingv1beta1.ReasonQoSClassFixed, func(day *rolloutDay) {
		day.isEffective = true
		day.Last = &autoscalingv1beta1.RolloutStatus{State: autoscalingv1beta1.RolloutIneffective, Cause: "other", Ineffective: 3}
	}).run()
	assert.Len(t, day.starts, 1)
	assert.Equal(t, autoscalingv1beta1.RolloutEffective, day.Last.State)
	assert.Zero(t, day.Last.Ineffective)
	// Months later, another size needs another rollout.
	day.isEffective, day.Reason, day.IsSettled = false, autoscalingv1beta1.ReasonQoSClassFixed, false
	day.cause.Sizes[0].Requests = list("1", "1Gi")
	day.Cause = day.cause.String()
	assert.NotNil(t, day.Next(monday.Add(1000*time.Hour)).Request)
}

func TestRequestIsWithdrawnAndRenewed(t *testing.T) {
	t.Parallel()
	cause := RolloutCause{Reason: autoscalingv1beta1.ReasonQoSClassFixed}.String()
	requested := func(ago time.Duration) *Rollout {
		return &Rollout{
			Deployment: rolledOut(3), Fits: true, OOMKilled: true, IsInTable: true, Cause: cause, Reason: autoscalingv1beta1.ReasonQoSClassFixed,
			Last: &autoscalingv1beta1.RolloutStatus{
				State: autoscalingv1beta1.RolloutRequested, Cause: cause, RequestedAt: metav1.NewTime(monday.Add(-ago)), Ineffective: 2,
			},
		}
	}
	r := requested(time.Second)
	assert.True(t, r.Next(monday).Start)
	r.IsInTable = false
	assert.Equal(t, RolloutStep{Status: r.Last}, r.Next(monday), "it waits until new pods get the size")

	for name, change := range map[string]func(*Rollout){
		"no pod has to be replaced":    func(r *Rollout) { r.Reason = "" },
		"paused":                       func(r *Rollout) { r.Deployment.Spec.Paused = true },
		"somebody else rolls it out":   func(r *Rollout) { r.Deployment.Generation++ },
		"no node fits any more":        func(r *Rollout) { r.Fits = false },
		"somebody has taken the wheel": func(r *Rollout) { r.DeclaredBy = "helm" },
	} {
		r := requested(time.Second)
		change(r)
		step := r.Next(monday)
		assert.False(t, step.Start, name)
		assert.Equal(t, autoscalingv1beta1.RolloutWithdrawn, step.Status.State, name)
		assert.Equal(t, int32(2), step.Status.Ineffective, name)
	}
	for name, change := range map[string]func(*Rollout){
		"the manager was stopped": func(r *Rollout) { *r = *requested(requestLifetime) },
		"another cause":           func(r *Rollout) { r.Cause = "another" },
	} {
		r := requested(time.Second)
		change(r)
		step := r.Next(monday)
		assert.False(t, step.Start, name)
		assert.Equal(t, r.Cause, step.Request.Cause, name)
		assert.Equal(t, monday, step.Request.RequestedAt.UTC(), name)
	}
}

func TestRolloutWaitsForThePodsOfTheLastOne(t *testing.T) {
	t.Parallel()
	day := newRolloutDay(autoscalingv1beta1.ReasonQoSClassFixed)
	day.Reason, day.Cause = day.cause.Reason, day.cause.String()
	day.Last = &autoscalingv1beta1.RolloutStatus{
		State: autoscalingv1beta1.RolloutStarted, Cause: day.Cause, RequestedAt: metav1.NewTime(monday),
	}
	day.Deployment.Spec.Template.Annotations = map[string]string{AnnotationRestartedAt: monday.Format(time.RFC3339)}
	step := day.Next(monday.Add(time.Minute))
	assert.Equal(t, autoscalingv1beta1.RolloutCompleted, step.Status.State)
	assert.Equal(t, Block{Reason: autoscalingv1beta1.ReasonRolloutInProgress, RequeueAfter: podsDelay}, step.Block)
	step = day.Next(monday.Add(time.Hour))
	assert.Equal(t, autoscalingv1beta1.ReasonRolloutIneffective, step.Block.Reason, "the clocks differ")
}

func TestRolloutCountsAsActiveForAnHour(t *testing.T) {
	t.Parallel()
	rollout := func(state autoscalingv1beta1.RolloutState, ago time.Duration) *autoscalingv1beta1.RolloutStatus {
		return &autoscalingv1beta1.RolloutStatus{State: state, RequestedAt: metav1.NewTime(monday.Add(-ago))}
	}
	assert.False(t, IsRolloutActive(nil, monday))
	assert.True(t, IsRolloutActive(rollout(autoscalingv1beta1.RolloutRequested, 0), monday))
	assert.True(t, IsRolloutActive(rollout(autoscalingv1beta1.RolloutStarted, time.Hour-time.Second), monday))
	assert.False(t, IsRolloutActive(rollout(autoscalingv1beta1.RolloutStarted, time.Hour), monday))
	assert.False(t, IsRolloutActive(rollout(autoscalingv1beta1.RolloutCompleted, 0), monday))
	assert.False(t, IsRolloutActive(rollout(autoscalingv1beta1.RolloutWithdrawn, 0), monday))
}
