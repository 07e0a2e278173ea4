package sizing

import corev1 "k8s.io/api/core/v1"

// LargestNode returns the most that any of the nodes has to give of CPU and memory, each by
// itself, or none where there is no node.
func LargestNode(nodes []corev1.Node) corev1.ResourceList {
	largest := corev1.ResourceList{}
	for i := range nodes {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			amount, isKnown := nodes[i].Status.Allocatable[name]
			if most := largest[name]; isKnown && amount.Cmp(most) > 0 {
				largest[name] = amount
			}
		}
	}
	return largest
}
