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

// life is a container whose usage is measured once a minute, and which is resized in place.
type life struct {
	history     *recommender.History
	recommended []autoscalingv1beta1.ContainerRecommendation
	told        map[corev1.ResourceName][]targetAt
	app         corev1.Container
	resizes     int
}

// targetAt is a target that was told at a time.
type targetAt struct {
	at     time.Time
	amount int64
}

// minute lets the container live on for a minute in which it uses so much.
func (l *life) minute(t *testing.T, now time.Time, cores float64, bytes int64) {
	t.Helper()
	require.NoError(t, l.history.AddCPU(now, cores))
	require.NoError(t, l.history.AddMemory(now, bytes))
	spec := &autoscalingv1beta1.VerticalScalerSpec{}
	said := []autoscalingv1beta1.ContainerRecommendation{
		ContainerRecommendation("app", l.history.Recommend(Policy(spec, "app", 1, Surroundings{}))),
	}
	if News(l.recommended, said) {
		l.recommended = said
		for _, r := range sizedResources {
			l.told[r.name] = append(l.told[r.name], targetAt{now, r.of(said[0].Target)})
		}
	}
	due, _ := Due(nil, &l.app, Container(spec, &l.app, l.recommended[0].Target, nil), &l.recommended[0],
		func(name corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
			return steadyOf(l.told[name], now.Add(-window))
		}, false)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{l.app}}}
	if changed := Resized(pod, []autoscalingv1beta1.ContainerSizing{due}); len(changed) > 0 {
		l.app = changed[0]
		l.resizes++
	}
}

// steadyOf returns the least and the greatest target since a time.
func steadyOf(told []targetAt, since time.Time) (least, most int64, ok bool) {
	for i := len(told) - 1; i >= 0 && !ok; i-- {
		if most == 0 {
			least = told[i].amount
		}
		least, most, ok = min(least, told[i].amount), max(most, told[i].amount), !told[i].at.After(since)
	}
	return least, most, ok
}

// begin returns a container that requests so much.
func begin(requests corev1.ResourceList) *life {
	return &life{
		history: recommender.New(recommender.DefaultHalfLife), told: map[corev1.ResourceName][]targetAt{},
		app: container("app", requests, nil),
	}
}

// The usage of both resources walks at random within 8 % around a level. Each of them gets its
// size once, by the little that is known in the first hours, and may be corrected once.
func TestANoisyFirstDayResizesAPodFourTimesAtMostAndTheNextOneNever(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string]corev1.ResourceList{
		"that has too little": list("100m", "300Mi"), "that has about enough": list("600m", "1200Mi"), "that has too much": list("4", "8Gi"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range int64(8) {
				r := rand.New(rand.NewSource(seed))
				l := begin(requests)
				off, firstDay := 0.0, 0
				for minute := range 2 * 1440 {
					off = max(-0.08, min(0.08, off+0.01*r.NormFloat64()))
					l.minute(t, monday.Add(time.Duration(minute)*time.Minute), 0.5*(1+off), int64(1e9*(1+off)))
					if minute == 1439 {
						firstDay = l.resizes
					}
				}
				assert.LessOrEqual(t, firstDay, 4, "on the first day")
				assert.Equal(t, firstDay, l.resizes, "on the second")
			}
		})
	}
}
