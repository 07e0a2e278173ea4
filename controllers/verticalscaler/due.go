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
func (s *scope) due(pod *corev1.Pod, killed map[string]bool) (due []autoscalingv1beta1.ContainerSizing, isWaiting bool) {
	containers := pods.Sizable(&pod.Spec)
	for i := range containers {
		name := containers[i].Name
		size := slices.IndexFunc(s.status.Sizing, func(size autoscalingv1beta1.ContainerSizing) bool { return size.ContainerName == name })
		recommended := recommendation.ForContainer(s.status.Recommendations, name)
		if size < 0 || recommended == nil {
			continue
		}
		targetRange := func(resource corev1.ResourceName, window time.Duration) (least, most int64, ok bool) {
			if s.unavailable != "" { // A target does not become stable while usage is missing.
				return 0, 0, false
			}
			return s.workload.TargetRange(name, resource, window, s.now)
		}
		dueNow, waits := sizing.Due(s.scaler.Spec.Behavior, &containers[i], s.status.Sizing[size],
			recommended, targetRange, killed[name])
		if s.isReverted() {
			sizing.AddRaises(&dueNow, &containers[i], &s.status.Sizing[size])
		}
		dueNow, limitWaits := s.dueLimits(&containers[i], s.status.Sizing[size], dueNow, targetRange)
		due = append(due, dueNow)
		isWaiting = isWaiting || waits || limitWaits
	}
	return due, isWaiting
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
