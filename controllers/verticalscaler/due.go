package verticalscaler

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// recentKill is how long after an OOM kill memory is raised without a stabilization window. A
// pod keeps reporting its last kill.
const recentKill = time.Hour

// dueSizes returns what the pods of a target should get now. Most pods have the same resources,
// so it decides once for each container and its resources.
type dueSizes struct {
	scope  *scope
	sizes  []autoscalingv1beta1.ContainerSizing
	killed map[string]bool // Containers that ran out of memory recently.
	newest *corev1.Pod     // Nil if no pod lives.
	known  map[dueKey]dueSize
}

// dueKey is all that decides about the size that is due for a container in a reconcile: its name,
// its requests and limits, and whether its pod has the newest template. The cache stores equal lists
// once, so their addresses are enough.
type dueKey struct {
	container        string
	requests, limits uintptr
	isOld            bool
}

// dueSize is the size that is due for a container, and whether others wait for the stabilization
// window.
type dueSize struct {
	size      autoscalingv1beta1.ContainerSizing
	isWaiting bool
}

func (s *scope) newDueSizes(sizes []autoscalingv1beta1.ContainerSizing) *dueSizes {
	return &dueSizes{scope: s, sizes: sizes, killed: s.recentlyKilled(), newest: pods.Newest(s.pods), known: map[dueKey]dueSize{}}
}

// of returns the sizes that a pod should get now, and whether others wait for the stabilization
// window.
func (d *dueSizes) of(pod *corev1.Pod) (due []autoscalingv1beta1.ContainerSizing, isWaiting bool) {
	isOld := d.newest != nil && pods.TemplateHash(pod) != pods.TemplateHash(d.newest)
	for container := range pods.EachSizable(&pod.Spec) {
		key := dueKey{container.Name, sizing.AddressOf(container.Resources.Requests), sizing.AddressOf(container.Resources.Limits), isOld}
		size, isKnown := d.known[key]
		if !isKnown {
			size = d.decide(container, isOld)
			d.known[key] = size
		}
		if len(size.size.Requests) > 0 || len(size.size.Limits) > 0 {
			due = append(due, size.size)
		}
		isWaiting = isWaiting || size.isWaiting
	}
	return due, isWaiting
}

// decide returns the size that is due for a container. While a rollout replaces its pod, its limits
// only follow its requests: those of the new template may be too low for the old one.
func (d *dueSizes) decide(container *corev1.Container, isOld bool) dueSize {
	s, name := d.scope, container.Name
	size := sizing.SizeOf(d.sizes, name)
	recommended := recommendation.ForContainer(s.status.Recommendations, name)
	if size == nil || recommended == nil {
		return dueSize{}
	}
	targetRange := func(resource corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
		if s.unavailable != "" { // A target does not become stable while usage is missing.
			return 0, 0, false
		}
		return s.workload.TargetRange(name, resource, window, s.now)
	}
	due, isWaiting := sizing.Due(s.scaler.Spec.Behavior, container, *size, recommended, targetRange, d.killed[name])
	if s.isReverted() {
		sizing.AddRaises(&due, container, size)
	}
	if isOld && len(due.Requests) == 0 {
		return dueSize{due, isWaiting}
	}
	due, limitWaits := s.dueLimits(container, d.sizes, *size, due, targetRange)
	return dueSize{due, isWaiting || limitWaits}
}

// recentlyKilled returns the names of the containers that ran out of memory in any pod within
// the last hour.
func (s *scope) recentlyKilled() map[string]bool {
	killed := map[string]bool{}
	for i := range s.pods {
		status := &s.pods[i].Status
		for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
			for n := range statuses {
				last := pods.LastOOMKill(&statuses[n])
				// A time in the future cannot be true.
				if last != nil && s.now.Sub(last.FinishedAt.Time) < recentKill && s.now.Add(time.Minute).After(last.FinishedAt.Time) {
					killed[statuses[n].Name] = true
				}
			}
		}
	}
	return killed
}

// restartBudget limits in how many pods containers restart at the same time.
type restartBudget struct {
	most int
	// restarting is the number of pods whose containers restart because of a resize, and
	// unavailable is the number of these and of those that are not ready.
	restarting, unavailable int
}

// newRestartBudget counts the live pods. A leftover of an evicted pod does not count, nor does a
// resize that a node has deferred.
func (s *scope) newRestartBudget() *restartBudget {
	percent := defaultMaxRestartingPercent
	if behavior := s.scaler.Spec.Behavior; behavior != nil && behavior.MaxRestartingPercent > 0 {
		percent = int(behavior.MaxRestartingPercent)
	}
	live := 0
	budget := &restartBudget{}
	for i := range s.pods {
		pod := &s.pods[i]
		if !pods.IsLive(pod) {
			continue
		}
		live++
		if sizing.IsRestarting(pod) {
			budget.restarting++
			budget.unavailable++
		} else if !pods.IsReady(pod) {
			budget.unavailable++
		}
	}
	budget.most = max(1, live*percent/100)
	return budget
}

// take reports whether the containers of a pod may restart now, and counts the restart. The pod
// does not count against itself. If it is not ready, its restart makes nothing unavailable, so it
// only waits for other restarts.
func (b *restartBudget) take(pod *corev1.Pod) bool {
	isReady, isRestarting := pods.IsReady(pod), sizing.IsRestarting(pod)
	others := b.unavailable
	if !isReady {
		others = b.restarting
	}
	if isRestarting {
		others--
	}
	if others >= b.most {
		return false
	}
	if !isRestarting {
		b.restarting++
		if isReady {
			b.unavailable++
		}
	}
	return true
}
