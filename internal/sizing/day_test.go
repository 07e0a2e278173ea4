package sizing

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// simulation is a container that has one usage sample a minute and is resized in place.
type simulation struct {
	history     *recommender.History
	recommended []autoscalingv1beta1.ContainerRecommendation
	targets     map[corev1.ResourceName][]pastTarget
	template    corev1.PodSpec
	app         corev1.Container
	resizes     int
}

// pastTarget is a target and the time from which it applied.
type pastTarget struct {
	at     time.Time
	amount int64
}

// addMinute adds the samples of a minute and applies the size that is due.
func (s *simulation) addMinute(t *testing.T, now time.Time, cores float64, bytes int64) {
	t.Helper()
	require.NoError(t, s.history.AddCPU(now, cores))
	require.NoError(t, s.history.AddMemory(now, bytes))
	spec := &autoscalingv1beta1.VerticalScalerSpec{}
	current := []autoscalingv1beta1.ContainerRecommendation{
		ContainerRecommendation("app", s.history.Recommend(Policy(spec, "app", 1, Constraints{}))),
	}
	if Changed(s.recommended, current) {
		s.recommended = current
		for _, r := range sizedResources {
			s.targets[r.name] = append(s.targets[r.name], pastTarget{now, r.amountIn(current[0].Target)})
		}
	}
	targetRange := func(name corev1.ResourceName, window time.Duration) (lowest, highest int64, ok bool) {
		return targetsSince(s.targets[name], now.Add(-window))
	}
	size := sizeContainer(spec, &s.template.Containers[0], s.recommended[0].Target, Constraints{})
	due, _ := Due(nil, &s.app, size, &s.recommended[0], targetRange, false)
	sizes := []autoscalingv1beta1.ContainerSizing{size}
	SetTemplateLimits(sizes, &s.template, nil)
	limits := RunningLimits(spec, &s.template, sizes, "app", SizedRequests(&s.app, size, due), Constraints{})
	due, _ = DueLimits(nil, &s.app, due, limits, targetRange, func() int64 { return 0 })
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{s.app}}}
	if changed := resized(pod, []autoscalingv1beta1.ContainerSizing{due}); len(changed) > 0 {
		s.app = changed[0]
		s.resizes++
	}
}

// targetsSince returns the lowest and the highest target since a time. ok is false if no
// target is old enough.
func targetsSince(targets []pastTarget, since time.Time) (lowest, highest int64, ok bool) {
	for i := len(targets) - 1; i >= 0 && !ok; i-- {
		if highest == 0 {
			lowest = targets[i].amount
		}
		lowest, highest, ok = min(lowest, targets[i].amount), max(highest, targets[i].amount), !targets[i].at.After(since)
	}
	return lowest, highest, ok
}

// newSimulation returns a container with requests and limits, and without history.
func newSimulation(requests, limits corev1.ResourceList) *simulation {
	app := container("app", requests, limits)
	return &simulation{
		history: recommender.New(recommender.DefaultHalfLife), targets: map[corev1.ResourceName][]pastTarget{},
		app: app, template: corev1.PodSpec{Containers: []corev1.Container{app}},
	}
}

// The usage of both resources is a random walk within 8 % of a level. Each resource is resized
// once in the first hours, when few samples are known, and may be corrected once.
func TestNoisyUsageResizesAtMostFourTimesOnDayOneAndNeverOnDayTwo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ requests, limits corev1.ResourceList }{
		"request too low":     {list("100m", "300Mi"), nil},
		"request about right": {list("600m", "1200Mi"), nil},
		"request too high":    {list("4", "8Gi"), nil},
		"with limits":         {list("100m", "8Gi"), list("300m", "16Gi")},
		"with wide limits":    {list("100m", "200Mi"), list("600m", "1200Mi")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range int64(8) {
				r := rand.New(rand.NewSource(seed))
				s := newSimulation(test.requests, test.limits)
				noise, firstDay := 0.0, 0
				for minute := range 2 * 1440 {
					noise = max(-0.08, min(0.08, noise+0.01*r.NormFloat64()))
					s.addMinute(t, monday.Add(time.Duration(minute)*time.Minute), 0.5*(1+noise), int64(1e9*(1+noise)))
					if minute == 1439 {
						firstDay = s.resizes
					}
				}
				assert.LessOrEqual(t, firstDay, 4, "resizes on day one")
				assert.Equal(t, firstDay, s.resizes, "resizes on both days")
			}
		})
	}
}
