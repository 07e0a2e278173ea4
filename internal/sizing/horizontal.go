package sizing

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Horizontal returns the resources by whose utilization a HorizontalPodAutoscaler scales, for
// any container. Utilization is usage by request: with another request the number of pods
// would change, and with the number of pods the usage that the request follows.
func Horizontal(hpas []autoscalingv2.HorizontalPodAutoscaler) map[corev1.ResourceName]string {
	by := map[corev1.ResourceName]string{}
	for i := range hpas {
		for _, metric := range hpas[i].Spec.Metrics {
			var name corev1.ResourceName
			var target autoscalingv2.MetricTarget
			switch {
			case metric.Resource != nil:
				name, target = metric.Resource.Name, metric.Resource.Target
			case metric.ContainerResource != nil:
				name, target = metric.ContainerResource.Name, metric.ContainerResource.Target
			}
			// Of several, the first by name is told, in whatever order they come.
			if first, isKnown := by[name]; target.AverageUtilization != nil && (!isKnown || hpas[i].Name < first) {
				by[name] = hpas[i].Name
			}
		}
	}
	return by
}
