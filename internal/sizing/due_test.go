package sizing

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

var monday = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// targets are the lowest and the highest target in the time for which targets are known.
type targets struct {
	knownFor        time.Duration
	lowest, highest int64
}

func (s targets) targetRange(_ corev1.ResourceName, window time.Duration) (lowest, highest int64, ok bool) {
	return s.lowest, s.highest, window <= s.knownFor
}

// unknown has no targets, not even for a window of 0.
var unknown = targets{knownFor: -1}

// always returns a target that never changed.
func always(amount int64) targets {
	return targets{knownFor: 1000 * time.Hour, lowest: amount, highest: amount}
}

func TestRequestFollowsItsTarget(t *testing.T) {
	t.Parallel()
	const (
		now = 1 + iota
		later
		never
	)
	behavior := func(up, down autoscalingv1beta1.ScalingRules) *autoscalingv1beta1.Behavior {
		return &autoscalingv1beta1.Behavior{ScaleUp: &up, ScaleDown: &autoscalingv1beta1.ScaleDownRules{ScalingRules: down}}
	}
	window := func(seconds int32) autoscalingv1beta1.ScalingRules {
		return autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: &seconds}
	}
	tolerance := func(fraction string) autoscalingv1beta1.ScalingRules {
		return autoscalingv1beta1.ScalingRules{Tolerance: new(resource.MustParse(fraction))}
	}
	disabled := autoscalingv1beta1.ScalingRules{SelectPolicy: autoscalingv1beta1.SelectPolicyDisabled}
	var byDefault autoscalingv1beta1.ScalingRules
	const halfDay = 12 * time.Hour
	// The request is 1000 bytes. A lower bound of 0 never triggers; an upper bound of 0 always does.
	for name, test := range map[string]struct {
		target       int64
		recommended  int64 // 0 means the same as target.
		lower, upper int64
		past         targets
		oomKilled    bool
		behavior     *autoscalingv1beta1.Behavior
		want         int
	}{
		"request equals target":                                     {target: 1000, past: always(1000), want: never},
		"up after the default window":                               {target: 1200, past: targets{halfDay, 1200, 1200}, want: now},
		"up before the default window":                              {target: 1200, past: targets{halfDay - 1, 1200, 1200}, want: later},
		"up if the target was lower in the window":                  {target: 1200, past: targets{halfDay, 1100, 1200}, want: later},
		"up if the target was higher in the window":                 {target: 1200, past: targets{halfDay, 1101, 5000}, want: now},
		"up within the tolerance":                                   {target: 1100, past: always(1100), want: never},
		"up beyond the tolerance":                                   {target: 1101, past: always(1101), want: now},
		"up to a size within the tolerance of a target beyond it":   {target: 1100, past: always(5000), want: never},
		"up immediately below the lower bound":                      {target: 1200, lower: 1001, want: now},
		"up immediately below the lower bound within the tolerance": {target: 1002, lower: 1001, want: now},
		"up at the lower bound":                                     {target: 1200, lower: 1000, want: later},
		"up immediately after an OOM kill":                          {target: 1001, oomKilled: true, want: now},
		"same target after an OOM kill":                             {target: 1000, oomKilled: true, past: always(1000), want: never},
		"down after the default window":                             {target: 800, upper: 9999, past: targets{halfDay, 800, 800}, want: now},
		"down before the default window":                            {target: 800, upper: 9999, past: targets{halfDay - 1, 800, 800}, want: later},
		"down if the target was higher in the window":               {target: 800, upper: 9999, past: targets{halfDay, 800, 900}, want: later},
		"down if the target was lower in the window":                {target: 800, upper: 9999, past: targets{halfDay, 1, 899}, want: now},
		"down within the tolerance":                                 {target: 900, upper: 9999, past: always(900), want: never},
		"down beyond the tolerance":                                 {target: 899, upper: 9999, past: always(899), want: now},
		"down above the upper bound after an hour":                  {target: 800, upper: 999, past: targets{time.Hour, 800, 800}, want: now},
		"down above the upper bound before an hour":                 {target: 800, upper: 999, past: targets{time.Hour - 1, 800, 800}, want: later},
		"down above the upper bound within the tolerance":           {target: 950, upper: 999, past: always(950), want: never},
		"down at the upper bound before the default window":         {target: 800, upper: 1000, past: targets{halfDay - 1, 800, 800}, want: later},
		"down after an OOM kill":                                    {target: 800, upper: 9999, oomKilled: true, want: later},

		"down to a size below the recommended target": {
			target: 800, recommended: 5000, upper: 9999, past: targets{halfDay, 5000, 5000}, want: now},
		"down to a size below the recommended target, before the default window": {
			target: 800, recommended: 5000, upper: 9999, past: targets{halfDay - 1, 5000, 5000}, want: later},

		"empty rules: up after the default window": {
			target: 1101, past: targets{halfDay, 1101, 1101}, behavior: behavior(byDefault, byDefault), want: now},
		"empty rules: up before the default window": {
			target: 1101, past: targets{halfDay - 1, 1101, 1101}, behavior: behavior(byDefault, byDefault), want: later},
		"empty behavior: down after the default window": {
			target: 899, upper: 9999, past: targets{halfDay, 899, 899}, behavior: &autoscalingv1beta1.Behavior{}, want: now},
		"up after the scaleUp window": {
			target: 1200, past: targets{time.Minute, 1200, 1200}, behavior: behavior(window(60), byDefault), want: now},
		"up after the scaleDown window only": {
			target: 1200, past: targets{time.Minute, 1200, 1200}, behavior: behavior(byDefault, window(60)), want: later},
		"up with a window of 0": {
			target: 1200, past: targets{0, 1200, 1200}, behavior: behavior(window(0), byDefault), want: now},
		"down after the scaleDown window": {
			target: 800, upper: 9999, past: targets{time.Minute, 800, 800}, behavior: behavior(byDefault, window(60)), want: now},
		"down above the upper bound with a shorter window": {
			target: 800, upper: 999, past: targets{time.Minute, 800, 800}, behavior: behavior(byDefault, window(60)), want: now},
		"down above the upper bound with a longer window": {
			target: 800, upper: 999, past: targets{time.Hour, 800, 800}, behavior: behavior(byDefault, window(604800)), want: now},
		"up at the scaleUp tolerance": {
			target: 1150, past: always(1150), behavior: behavior(tolerance("0.15"), tolerance("0")), want: never},
		"up beyond the scaleUp tolerance": {
			target: 1151, past: always(1151), behavior: behavior(tolerance("0.15"), tolerance("10")), want: now},
		"up with a tolerance of 0": {target: 1001, past: always(1001), behavior: behavior(tolerance("0"), byDefault), want: now},
		"down at the scaleDown tolerance": {
			target: 850, upper: 9999, past: always(850), behavior: behavior(byDefault, tolerance("0.15")), want: never},
		"down beyond the scaleDown tolerance": {
			target: 849, upper: 9999, past: always(849), behavior: behavior(byDefault, tolerance("0.15")), want: now},
		"down with a tolerance of 1": {
			target: 1, upper: 9999, past: always(1), behavior: behavior(byDefault, tolerance("1")), want: never},
		"up with scaleUp disabled": {
			target: 5000, lower: 4000, oomKilled: true, past: always(5000), behavior: behavior(disabled, byDefault), want: never},
		"down with scaleDown disabled": {
			target: 100, upper: 200, past: always(100), behavior: behavior(byDefault, disabled), want: never},
		"down with scaleUp disabled": {
			target: 100, upper: 200, past: always(100), behavior: behavior(disabled, byDefault), want: now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bytes := func(amount int64) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(amount, resource.BinarySI)}
			}
			app := container("app", bytes(1000), bytes(2000))
			size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: bytes(test.target)}
			recommended := &autoscalingv1beta1.ContainerRecommendation{
				Target: bytes(cmp.Or(test.recommended, test.target)), LowerBound: bytes(test.lower), UpperBound: bytes(test.upper),
			}
			due, pending := Due(test.behavior, &app, size, recommended, test.past.targetRange, test.oomKilled)
			want := autoscalingv1beta1.ContainerSizing{ContainerName: "app"}
			if test.want == now {
				want = size
			}
			assert.Equal(t, want, due)
			assert.Equal(t, test.want == later, pending, "pending")
		})
	}
}

func TestResourcesAreDueIndependently(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: list("200m", "200Mi")}
	recommended := &autoscalingv1beta1.ContainerRecommendation{LowerBound: list("150m", "50Mi"), UpperBound: list("1", "1Gi")}

	due, pending := Due(nil, &app, size, recommended, unknown.targetRange, false)
	assertAmounts(t, list("200m", ""), due.Requests, "requests")
	assert.True(t, pending, "memory is pending")

	due, pending = Due(nil, &app, size, recommended, unknown.targetRange, true)
	assertAmounts(t, list("200m", "200Mi"), due.Requests, "requests after an OOM kill")
	assert.False(t, pending)
}

func TestOOMKillRaisesOnlyMemory(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: list("200m", "200Mi")}
	due, pending := Due(nil, &app, size, &autoscalingv1beta1.ContainerRecommendation{}, unknown.targetRange, true)
	assertAmounts(t, list("", "200Mi"), due.Requests, "requests")
	assert.True(t, pending, "CPU is pending")
}

func TestResourceWithoutSizeIsNeverDue(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	due, pending := Due(nil, &app, autoscalingv1beta1.ContainerSizing{ContainerName: "app"},
		&autoscalingv1beta1.ContainerRecommendation{LowerBound: list("1", "1Gi")}, always(1<<40).targetRange, true)
	assert.Equal(t, autoscalingv1beta1.ContainerSizing{ContainerName: "app"}, due)
	assert.False(t, pending)
}
