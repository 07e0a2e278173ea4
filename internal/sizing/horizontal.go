package sizing

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// ScaledByHPA returns the resources whose utilization a HorizontalPodAutoscaler scales on, for
// any container, with the name of the HorizontalPodAutoscaler. Utilization is usage divided by
// request. A changed request would change the number of pods, and then the usage of each pod.
func ScaledByHPA(hpas []autoscalingv2.HorizontalPodAutoscaler) map[corev1.ResourceName]string {
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
			// The first name wins, so the result does not depend on the order of the list.
			if first, isKnown := by[name]; target.AverageUtilization != nil && (!isKnown || hpas[i].Name < first) {
				by[name] = hpas[i].Name
			}
		}
	}
	return by
}
