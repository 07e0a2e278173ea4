package sizing

import corev1 "k8s.io/api/core/v1"

// LargestNode returns the most CPU and the most memory that any node has allocatable. The two
// can come from different nodes. The list is empty if there is no node.
func LargestNode(nodes []corev1.Node) corev1.ResourceList {
	largest := corev1.ResourceList{}
	for i := range nodes {
		for _, r := range sizedResources {
			amount, isKnown := nodes[i].Status.Allocatable[r.name]
			if most := largest[r.name]; isKnown && amount.Cmp(most) > 0 {
				largest[r.name] = amount
			}
		}
	}
	return largest
}
