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

// targets says that a target has been told for a time, with its least and its greatest amount.
type targets struct {
	known       time.Duration
	least, most int64
}

func (s targets) steady(_ corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
	return s.least, s.most, window <= s.known
}

// always has told an amount for ever.
func always(amount int64) targets {
	return targets{known: 1000 * time.Hour, least: amount, most: amount}
}

func TestARequestFollowsItsTarget(t *testing.T) {
	t.Parallel()
	const (
		now = 1 + iota
		later
		never
	)
	behavior := func(up, down autoscalingv1beta1.ScalingRules) *autoscalingv1beta1.Behavior {
		return &autoscalingv1beta1.Behavior{ScaleUp: &up, ScaleDown: &down}
	}
	window := func(seconds int32) autoscalingv1beta1.ScalingRules {
		return autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: &seconds}
	}
	tolerance := func(share string) autoscalingv1beta1.ScalingRules {
		return autoscalingv1beta1.ScalingRules{Tolerance: new(resource.MustParse(share))}
	}
	disabled := autoscalingv1beta1.ScalingRules{SelectPolicy: autoscalingv1beta1.SelectPolicyDisabled}
	var asByDefault autoscalingv1beta1.ScalingRules
	const half = 12 * time.Hour
	// A request of 1000 bytes; without bounds, any is within them.
	for name, test := range map[string]struct {
		target       int64
		recommended  int64 // Where it is not the target.
		lower, upper int64
		told         targets
		killed       bool
		behavior     *autoscalingv1beta1.Behavior
		want         int
	}{
		"not where it is its target":                                 {target: 1000, told: always(1000), want: never},
		"up after half a day":                                        {target: 1200, told: targets{half, 1200, 1200}, want: now},
		"up not before":                                              {target: 1200, told: targets{half - 1, 1200, 1200}, want: later},
		"up not where the target was less meanwhile":                 {target: 1200, told: targets{half, 1100, 1200}, want: later},
		"up where it was more meanwhile":                             {target: 1200, told: targets{half, 1101, 5000}, want: now},
		"up not within the tolerance":                                {target: 1100, told: always(1100), want: never},
		"up beyond the tolerance":                                    {target: 1101, told: always(1101), want: now},
		"up to a size within the tolerance, of a target that is not": {target: 1100, told: always(5000), want: never},
		"up at once below the lower bound":                           {target: 1200, lower: 1001, want: now},
		"up at once below the lower bound, be it little":             {target: 1002, lower: 1001, want: now},
		"up not at once at the lower bound":                          {target: 1200, lower: 1000, want: later},
		"up at once after an OOM kill":                               {target: 1001, killed: true, want: now},
		"up not after an OOM kill that left it as it was":            {target: 1000, killed: true, told: always(1000), want: never},
		"down after half a day":                                      {target: 800, upper: 9999, told: targets{half, 800, 800}, want: now},
		"down not before":                                            {target: 800, upper: 9999, told: targets{half - 1, 800, 800}, want: later},
		"down not where the target was more meanwhile":               {target: 800, upper: 9999, told: targets{half, 800, 900}, want: later},
		"down where it was less meanwhile":                           {target: 800, upper: 9999, told: targets{half, 1, 899}, want: now},
		"down not within the tolerance":                              {target: 900, upper: 9999, told: always(900), want: never},
		"down beyond the tolerance":                                  {target: 899, upper: 9999, told: always(899), want: now},
		"down after an hour above the upper bound":                   {target: 800, upper: 999, told: targets{time.Hour, 800, 800}, want: now},
		"down not before above the upper bound":                      {target: 800, upper: 999, told: targets{time.Hour - 1, 800, 800}, want: later},
		"down not within the tolerance above the bound":              {target: 950, upper: 999, told: always(950), want: never},
		"down after half a day at the upper bound":                   {target: 800, upper: 1000, told: targets{half - 1, 800, 800}, want: later},
		"down not at once after an OOM kill":                         {target: 800, upper: 9999, killed: true, want: later},

		"down to what it may get of a target that is higher": {
			target: 800, recommended: 5000, upper: 9999, told: targets{half, 5000, 5000}, want: now},
		"down to what it may get not before it is known for how long": {
			target: 800, recommended: 5000, upper: 9999, told: targets{half - 1, 5000, 5000}, want: later},

		"as by default with empty rules, up": {
			target: 1101, told: targets{half, 1101, 1101}, behavior: behavior(asByDefault, asByDefault), want: now},
		"as by default with empty rules, up not before": {
			target: 1101, told: targets{half - 1, 1101, 1101}, behavior: behavior(asByDefault, asByDefault), want: later},
		"as by default with an empty behavior": {
			target: 899, upper: 9999, told: targets{half, 899, 899}, behavior: &autoscalingv1beta1.Behavior{}, want: now},
		"up after a window of its own": {
			target: 1200, told: targets{time.Minute, 1200, 1200}, behavior: behavior(window(60), asByDefault), want: now},
		"up not after that of the other direction": {
			target: 1200, told: targets{time.Minute, 1200, 1200}, behavior: behavior(asByDefault, window(60)), want: later},
		"up with a window of nothing": {
			target: 1200, told: targets{0, 1200, 1200}, behavior: behavior(window(0), asByDefault), want: now},
		"down after a window of its own": {
			target: 800, upper: 9999, told: targets{time.Minute, 800, 800}, behavior: behavior(asByDefault, window(60)), want: now},
		"down before an hour above the upper bound, with a shorter window": {
			target: 800, upper: 999, told: targets{time.Minute, 800, 800}, behavior: behavior(asByDefault, window(60)), want: now},
		"down after an hour above the upper bound, with a longer window": {
			target: 800, upper: 999, told: targets{time.Hour, 800, 800}, behavior: behavior(asByDefault, window(604800)), want: now},
		"up at a tolerance of its own": {
			target: 1150, told: always(1150), behavior: behavior(tolerance("0.15"), tolerance("0")), want: never},
		"up beyond a tolerance of its own": {
			target: 1151, told: always(1151), behavior: behavior(tolerance("0.15"), tolerance("10")), want: now},
		"up without tolerance": {target: 1001, told: always(1001), behavior: behavior(tolerance("0"), asByDefault), want: now},
		"down at a tolerance of its own": {
			target: 850, upper: 9999, told: always(850), behavior: behavior(asByDefault, tolerance("0.15")), want: never},
		"down beyond a tolerance of its own": {
			target: 849, upper: 9999, told: always(849), behavior: behavior(asByDefault, tolerance("0.15")), want: now},
		"down never with a tolerance of all": {
			target: 1, upper: 9999, told: always(1), behavior: behavior(asByDefault, tolerance("1")), want: never},
		"never up where that is disabled": {
			target: 5000, lower: 4000, killed: true, told: always(5000), behavior: behavior(disabled, asByDefault), want: never},
		"never down where that is disabled": {
			target: 100, upper: 200, told: always(100), behavior: behavior(asByDefault, disabled), want: never},
		"down where up is disabled": {
			target: 100, upper: 200, told: always(100), behavior: behavior(disabled, asByDefault), want: now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bytes := func(amount int64) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(amount, resource.BinarySI)}
			}
			app := container("app", bytes(1000), bytes(2000))
			size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: bytes(test.target), Limits: bytes(2 * test.target)}
			recommended := &autoscalingv1beta1.ContainerRecommendation{
				Target: bytes(cmp.Or(test.recommended, test.target)), LowerBound: bytes(test.lower), UpperBound: bytes(test.upper),
			}
			due, waits := Due(test.behavior, &app, size, recommended, test.told.steady, test.killed)
			want := autoscalingv1beta1.ContainerSizing{ContainerName: "app"}
			if test.want == now {
				want = size
			}
			assert.Equal(t, want, due)
			assert.Equal(t, test.want == later, waits && due.Requests == nil, "it waits")
		})
	}
}

func TestEachResourceIsDueByItself(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: list("200m", "200Mi"), Limits: list("400m", "")}
	recommended := &autoscalingv1beta1.ContainerRecommendation{LowerBound: list("150m", "50Mi"), UpperBound: list("1", "1Gi")}

	due, waits := Due(nil, &app, size, recommended, targets{known: -1}.steady, false)
	assertAmounts(t, list("200m", ""), due.Requests, "requests")
	assertAmounts(t, list("400m", ""), due.Limits, "limits")
	assert.True(t, waits, "memory waits")

	due, waits = Due(nil, &app, size, recommended, targets{known: -1}.steady, true)
	assertAmounts(t, list("200m", "200Mi"), due.Requests, "requests after an OOM kill")
	assertAmounts(t, list("400m", ""), due.Limits, "limits after an OOM kill")
	assert.False(t, waits)
}

func TestAnOOMKillRaisesMemoryAlone(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	size := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: list("200m", "200Mi")}
	due, waits := Due(nil, &app, size, &autoscalingv1beta1.ContainerRecommendation{}, targets{known: -1}.steady, true)
	assertAmounts(t, list("", "200Mi"), due.Requests, "requests")
	assert.True(t, waits, "CPU waits")
}

func TestAResourceWithoutASizeIsNeverDue(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	due, waits := Due(nil, &app, autoscalingv1beta1.ContainerSizing{ContainerName: "app"},
		&autoscalingv1beta1.ContainerRecommendation{LowerBound: list("1", "1Gi")}, always(1<<40).steady, true)
	assert.Equal(t, autoscalingv1beta1.ContainerSizing{ContainerName: "app"}, due)
	assert.False(t, waits)
}
