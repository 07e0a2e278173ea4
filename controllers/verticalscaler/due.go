package verticalscaler

import (
	"slices"
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

// due returns the sizes that a pod should get now, and whether others wait for the
// stabilization window. killed are the names of the containers that were OOM-killed recently.
func (r *runningSizes) due(pod *corev1.Pod, killed map[string]bool) (due []autoscalingv1beta1.ContainerSizing, isWaiting bool) {
	containers := pods.Sizable(&pod.Spec)
	if !slices.ContainsFunc(containers, r.differs) {
		return nil, false
	}
	s, requests := r.scope, map[string]corev1.ResourceList{}
	var sized []*corev1.Container
	for i := range containers {
		name := containers[i].Name
		recommended := recommendation.ForContainer(s.status.Recommendations, name)
		size, isSized := r.sizes[name]
		if !isSized || recommended == nil {
			continue
		}
		dueNow, waits := sizing.Due(s.scaler.Spec.Behavior, &containers[i], size, recommended, s.targetRange(name), killed[name])
		sized, due = append(sized, &containers[i]), append(due, dueNow)
		requests[name] = sizing.SizedRequests(&containers[i], size, dueNow)
		isWaiting = isWaiting || waits
	}
	limits := r.limits(requests)
	for i, container := range sized {
		dueNow, waits := sizing.DueLimits(s.scaler.Spec.Behavior, container, due[i], limits[container.Name],
			s.targetRange(container.Name), s.memoryPeak(container.Name))
		due[i], isWaiting = dueNow, isWaiting || waits
	}
	return due, isWaiting
}

// targetRange returns the past targets of a container.
func (s *scope) targetRange(container string) sizing.TargetRange {
	return func(resource corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
		return s.workload.TargetRange(container, resource, window, s.now)
	}
}

// recentlyKilled returns the names of the containers that ran out of memory in any pod within
// the last hour.
func (s *scope) recentlyKilled() map[string]bool {
	killed := map[string]bool{}
	for i := range s.pods {
		for _, kill := range pods.OOMKills(&s.pods[i]) {
			if s.now.Sub(kill.FinishedAt) < recentKill {
				killed[kill.Container] = true
			}
		}
	}
	return killed
}

// restartsAllowed returns how many more pods may have a container restarted now.
func (s *scope) restartsAllowed() int {
	percent := defaultMaxRestartingPercent
	if behavior := s.scaler.Spec.Behavior; behavior != nil && behavior.MaxRestartingPercent > 0 {
		percent = int(behavior.MaxRestartingPercent)
	}
	allowed := max(1, len(s.pods)*percent/100)
	for i := range s.pods {
		if resizing, _ := sizing.Resizing(&s.pods[i]); resizing != "" || !pods.IsReady(&s.pods[i]) {
			allowed--
		}
	}
	return allowed
}
