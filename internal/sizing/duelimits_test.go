package sizing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestLimitFollowsTheTemplateAlsoIfItsRequestIsNotDue(t *testing.T) {
	t.Parallel()
	disabled := autoscalingv1beta1.ScalingRules{SelectPolicy: autoscalingv1beta1.SelectPolicyDisabled}
	upDisabled := &autoscalingv1beta1.Behavior{ScaleUp: &disabled}
	downDisabled := &autoscalingv1beta1.Behavior{ScaleDown: &autoscalingv1beta1.ScaleDownRules{ScalingRules: disabled}}
	const halfDay = 12 * time.Hour
	steady := always(100 * mebi)
	memory := func(amount string) corev1.ResourceList { return list("", amount) }
	// The container requests 100Mi.
	for name, test := range map[string]struct {
		current     corev1.ResourceList // Its limits.
		dueRequests corev1.ResourceList
		limits      corev1.ResourceList
		past        targets
		peak        int64
		behavior    *autoscalingv1beta1.Behavior
		want        corev1.ResourceList
		pending     bool
	}{
		"same limit":               {current: memory("200Mi"), limits: memory("204800Ki"), past: steady},
		"no limit":                 {current: memory("200Mi"), past: steady},
		"raised at once":           {current: memory("200Mi"), limits: memory("300Mi"), past: unknown, want: memory("300Mi")},
		"raised with its request":  {current: memory("200Mi"), dueRequests: memory("250Mi"), limits: memory("300Mi"), past: unknown, want: memory("300Mi")},
		"raised, scaleUp disabled": {current: memory("200Mi"), limits: memory("300Mi"), past: steady, behavior: upDisabled},
		"raised, scaleDown disabled": {
			current: memory("200Mi"), limits: memory("300Mi"), past: steady, behavior: downDisabled, want: memory("300Mi")},
		"lowered with its request": {
			current: memory("200Mi"), dueRequests: memory("80Mi"), limits: memory("160Mi"), past: unknown, want: memory("160Mi")},
		"lowered after the window": {
			current: memory("200Mi"), limits: memory("150Mi"), past: targets{halfDay, 1, 150 * mebi}, want: memory("150Mi")},
		"lowered before the window": {
			current: memory("200Mi"), limits: memory("150Mi"), past: targets{halfDay - 1, 1, 1}, pending: true},
		"lowered below a target in the window": {
			current: memory("200Mi"), limits: memory("150Mi"), past: targets{halfDay, 1, 151 * mebi}, pending: true},
		"lowered to the recent peak": {
			current: memory("200Mi"), limits: memory("150Mi"), past: steady, peak: 150 * mebi, want: memory("150Mi")},
		"lowered below the recent peak": {
			current: memory("200Mi"), limits: memory("150Mi"), past: steady, peak: 151 * mebi, pending: true},
		"lowered while its request is raised": {
			current: memory("200Mi"), dueRequests: memory("110Mi"), limits: memory("150Mi"), past: unknown, pending: true},
		"lowered, scaleDown disabled": {current: memory("200Mi"), limits: memory("150Mi"), past: steady, behavior: downDisabled},
		"lowered, scaleUp disabled": {
			current: memory("200Mi"), limits: memory("150Mi"), past: steady, behavior: upDisabled, want: memory("150Mi")},
		"limit for a container without one": {limits: memory("150Mi"), past: steady, want: memory("150Mi")},
		"limit below the recent peak for a container without one": {
			limits: memory("150Mi"), past: steady, peak: 151 * mebi, pending: true},
		"CPU has no peak": {
			current: list("200m", ""), limits: list("150m", ""), past: always(100), peak: 151 * mebi, want: list("150m", "")},
		"resources are due independently": {
			current: list("200m", "200Mi"), limits: list("300m", "150Mi"), past: unknown, want: list("300m", ""), pending: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := container("app", list("100m", "100Mi"), test.current)
			due := autoscalingv1beta1.ContainerSizing{ContainerName: "app", Requests: test.dueRequests}
			due, pending := DueLimits(test.behavior, &app, due, test.limits, test.past.targetRange, func() int64 { return test.peak })
			assertAmounts(t, test.dueRequests, due.Requests, "requests")
			assertAmounts(t, test.want, due.Limits, "limits")
			assert.Equal(t, test.pending, pending, "pending")
		})
	}
}

func TestRunningContainerHasTheLimitsOfANewPodWithItsRequests(t *testing.T) {
	t.Parallel()
	template := &corev1.PodSpec{Containers: []corev1.Container{
		container("app", list("100m", "128Mi"), list("200m", "256Mi")), container("log", list("100m", ""), nil),
	}}
	size := sizeOf("app", list("200m", "256Mi"), list("400m", "512Mi"))
	size.TemplateLimits = list("0.2", "262144Ki")
	for name, test := range map[string]struct {
		change   func(*autoscalingv1beta1.ContainerSizing)
		requests corev1.ResourceList
		ranges   []corev1.LimitRange
		want     corev1.ResourceList
	}{
		"requests of the size": {requests: size.Requests, want: size.Limits},
		"other requests":       {requests: list("150m", "192Mi"), want: list("300m", "384Mi")},
		"one other request":    {requests: list("150m", "256Mi"), want: list("300m", "512Mi")},
		"size that is not in proportion": {
			change:   func(size *autoscalingv1beta1.ContainerSizing) { size.Limits = list("1", "1Gi") },
			requests: size.Requests, want: list("1", "1Gi")},
		"request that a LimitRange does not admit": {
			requests: list("150m", "1Gi"), ranges: limitRanges(corev1.LimitRangeItem{Max: list("", "512Mi")}), want: list("300m", "")},
		"request that a LimitRange for pods does not admit": {
			requests: list("150m", "512Mi"), ranges: podLimitRange(corev1.LimitRangeItem{Max: list("", "640Mi")}),
			want: list("300m", "")},
		"size without limits": {
			change: func(size *autoscalingv1beta1.ContainerSizing) { size.Limits = nil }, requests: list("150m", "192Mi")},
		"size for another template": {
			change:   func(size *autoscalingv1beta1.ContainerSizing) { size.TemplateLimits = list("300m", "256Mi") },
			requests: list("150m", "192Mi"), want: list("", "384Mi")},
		"requests of a size for another template": {
			change:   func(size *autoscalingv1beta1.ContainerSizing) { size.TemplateLimits = list("300m", "256Mi") },
			requests: size.Requests, want: list("", "512Mi")},
		"size of a container that the template lacks": {
			change:   func(size *autoscalingv1beta1.ContainerSizing) { size.ContainerName = "gone" },
			requests: list("150m", "192Mi")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sizes := []autoscalingv1beta1.ContainerSizing{*size.DeepCopy(), sizeOf("log", list("200m", ""), nil)}
			if test.change != nil {
				test.change(&sizes[0])
			}
			before := cloneSizes(sizes)
			got := RunningLimits(&autoscalingv1beta1.VerticalScalerSpec{}, template, sizes, sizes[0].ContainerName, test.requests,
				Constraints{LimitRanges: test.ranges})
			assertAmounts(t, test.want, got, "limits")
			assert.Equal(t, before, sizes, "the sizes must not change")
		})
	}
}

func TestSizedRequestsAreTheDueOnesOrTheContainersOwn(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "100Mi"), nil)
	assertAmounts(t, list("100m", "200Mi"), SizedRequests(&app, sizeOf("app", list("1", "1Gi"), nil), sizeOf("app", list("", "200Mi"), nil)), "both")
	assertAmounts(t, list("", "100Mi"), SizedRequests(&app, sizeOf("app", list("", "1Gi"), nil), sizeOf("app", nil, nil)), "memory only")
}

func TestContainerHasItsSizeIfAllAmountsAreTheSame(t *testing.T) {
	t.Parallel()
	app := container("app", list("100m", "1Gi"), list("200m", ""))
	for name, test := range map[string]struct {
		size autoscalingv1beta1.ContainerSizing
		want bool
	}{
		"same":                      {sizeOf("app", list("0.1", "1024Mi"), list("0.2", "")), true},
		"one resource":              {sizeOf("app", list("100m", ""), nil), true},
		"another request":           {sizeOf("app", list("101m", ""), nil), false},
		"another limit":             {sizeOf("app", list("100m", ""), list("201m", "")), false},
		"limit that it has not got": {sizeOf("app", list("100m", ""), list("", "1Gi")), false},
	} {
		assert.Equal(t, test.want, HasSize(&app, test.size), name)
	}
}
