package recommendation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/usage"
)

// cause is why a whole reading has no new samples.
type cause string

const (
	noCause    cause = ""
	emptyCause cause = "No current usage: the source of usage returns no samples at all. " +
		"Check metrics-server, or whether Prometheus scrapes the kubelets."
	staleCause cause = "No current usage: the source of usage returns only old samples. " +
		"Check metrics-server, or whether Prometheus scrapes the kubelets, and the clocks."
)

// causeOf returns why a reading with a number of samples has no new ones.
func causeOf(found int, dropped usage.Dropped) cause {
	switch found {
	case 0:
		return emptyCause
	case dropped.Stale:
		return staleCause
	default:
		return noCause
	}
}

// clocks show for how long running containers have had no samples. A source can stop without any
// error: its answers are empty, or repeat old samples, or lack a node or a namespace.
type clocks struct {
	maxAge  time.Duration
	targets map[types.UID][]clock // By scaler.
}

// clock is the clock of a target's containers with the same name.
type clock struct {
	container string
	// since is the time of the newest sample or, if the containers have started later, the time
	// when this was observed.
	since     time.Time
	isSampled bool // Whether there was a sample after that.
	isRunning bool
}

func newClocks(maxAge time.Duration) *clocks {
	return &clocks{maxAge: maxAge, targets: map[types.UID][]clock{}}
}

func (c *clocks) forget(scaler types.UID) { delete(c.targets, scaler) }

// of returns the clock of a container.
func (c *clocks) of(scaler types.UID, container string) *clock {
	i := slices.IndexFunc(c.targets[scaler], func(clock clock) bool { return clock.container == container })
	if i < 0 {
		i = len(c.targets[scaler])
		c.targets[scaler] = append(c.targets[scaler], clock{container: container})
	}
	return &c.targets[scaler][i]
}

// sample starts the clock of a container again at the time of its sample.
func (c *clocks) sample(scaler types.UID, sample *usage.Sample) {
	clock := c.of(scaler, sample.Container)
	if !clock.isSampled || sample.Time.After(clock.since) {
		clock.since, clock.isSampled, clock.isRunning = sample.Time, true, true
	}
}

// check returns why there is no current usage of a scaler's target, or "" if there is. isKnown is
// false if this cannot be decided yet: a container has had no sample since it started, or since this
// manager started. Containers that have never had a recommendation do not count.
func (c *clocks) check(
	scaler *autoscalingv1beta1.VerticalScaler, targetPods []corev1.Pod, cause cause, now time.Time,
) (message string, isKnown bool) {
	pod := pods.Newest(targetPods)
	if pod == nil {
		c.forget(scaler.UID)
		return "", true
	}
	var silent []string
	isKnown = true
	for i := range scaler.Status.Recommendations {
		name := scaler.Status.Recommendations[i].ContainerName
		if !pods.IsSizable(&pod.Spec, name) {
			continue
		}
		clock := c.of(scaler.UID, name)
		isCurrent := clock.isSampled && now.Sub(clock.since) < c.maxAge
		if !isCurrent {
			clock.observe(runsInAny(targetPods, name), now)
		}
		switch {
		case isCurrent:
		case clock.isRunning && now.Sub(clock.since) >= c.maxAge:
			silent = append(silent, strconv.Quote(name))
		default:
			isKnown = false
		}
	}
	if len(silent) == 0 {
		return "", isKnown
	}
	if cause != noCause {
		return string(cause), true
	}
	return fmt.Sprintf("No current usage of container %s, although it runs. "+
		"Check whether metrics-server, or Prometheus, reaches its nodes.", strings.Join(silent, ", ")), true
}

func runsInAny(targetPods []corev1.Pod, container string) bool {
	for i := range targetPods {
		if pods.Runs(&targetPods[i], container) {
			return true
		}
	}
	return false
}

// observe starts the clock if the container has started to run.
func (c *clock) observe(isRunning bool, now time.Time) {
	if isRunning && !c.isRunning {
		c.since, c.isSampled = now, false
	}
	c.isRunning = isRunning
}
