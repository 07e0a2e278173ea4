package sizing

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Nodes are the nodes of the cluster, and what each has left for the pods of Deployments. It does
// not change after NewNodes. A nil Nodes has no node.
type Nodes struct {
	all []node
	// mostOpen is the most CPU and the most memory that any node has that is open to all pods.
	mostOpen corev1.ResourceList
	// closed are the nodes that are not open to all pods, by name.
	closed map[string]*corev1.Node
}

// node is a node, and its allocatable resources without what DaemonSets' pods request on it.
type node struct {
	*corev1.Node
	free map[corev1.ResourceName]int64 // In milli-CPU or bytes.
}

// NewNodes returns the nodes, on which the pods of DaemonSets run.
func NewNodes(all []corev1.Node, daemons []corev1.Pod) *Nodes {
	taken := map[string]map[corev1.ResourceName]int64{}
	for i := range daemons {
		requests := podresources.PodRequests(&daemons[i], podresources.PodResourcesOptions{})
		name := daemons[i].Spec.NodeName
		if taken[name] == nil {
			taken[name] = map[corev1.ResourceName]int64{}
		}
		for _, r := range sizedResources {
			taken[name][r.name] += r.amountIn(requests)
		}
	}
	n := &Nodes{mostOpen: corev1.ResourceList{}, closed: map[string]*corev1.Node{}}
	for i := range all {
		free := map[corev1.ResourceName]int64{}
		for _, r := range sizedResources {
			free[r.name] = r.amountIn(all[i].Status.Allocatable) - taken[all[i].Name][r.name]
		}
		n.all = append(n.all, node{&all[i], free})
		if accepts(&all[i], nil) {
			raise(n.mostOpen, all[i].Status.Allocatable)
		} else {
			n.closed[all[i].Name] = &all[i]
		}
	}
	return n
}

// IsEmpty reports whether no node is known.
func (n *Nodes) IsEmpty() bool { return n == nil || len(n.all) == 0 }

// Fits reports whether a new pod of a template could run on any node if that had no other pods
// than those of DaemonSets. requests are those of the whole pod.
func (n *Nodes) Fits(template *corev1.PodSpec, requests corev1.ResourceList) bool {
	if n == nil {
		return false
	}
	affinity := nodeaffinity.NewRequiredNodeAffinity(template.NodeSelector, template.Affinity)
	return slices.ContainsFunc(n.all, func(candidate node) bool {
		if !candidate.holds(requests) || !accepts(candidate.Node, template.Tolerations) {
			return false
		}
		// A pod with an invalid affinity is scheduled nowhere.
		isSelected, err := affinity.Match(candidate.Node)
		return err == nil && isSelected
	})
}

func (n node) holds(requests corev1.ResourceList) bool {
	return !slices.ContainsFunc(sizedResources[:], func(r sizedResource) bool {
		return r.amountIn(requests) > n.free[r.name]
	})
}

// Largest returns the most CPU and the most memory that any node has allocatable. The two can
// come from different nodes. It leaves out nodes that do not accept all pods, unless one of the
// given pods runs there or there is no other node. The list is empty if there is no node.
func (n *Nodes) Largest(pods []corev1.Pod) corev1.ResourceList {
	if n == nil || len(n.closed) == 0 {
		return n.open()
	}
	largest := n.open().DeepCopy()
	for i := range pods {
		if host := n.closed[pods[i].Spec.NodeName]; host != nil {
			raise(largest, host.Status.Allocatable)
		}
	}
	if len(largest) > 0 {
		return largest
	}
	for _, closed := range n.closed {
		raise(largest, closed.Status.Allocatable)
	}
	return largest
}

// open returns the most of each resource that a node has that is open to all pods.
func (n *Nodes) open() corev1.ResourceList {
	if n == nil {
		return corev1.ResourceList{}
	}
	return n.mostOpen
}

// raise raises the amounts in a list to those of another, if these are larger.
func raise(amounts, to corev1.ResourceList) {
	for _, r := range sizedResources {
		amount, isKnown := to[r.name]
		if most := amounts[r.name]; isKnown && amount.Cmp(most) > 0 {
			amounts[r.name] = amount
		}
	}
}

// accepts reports whether a node accepts new pods with tolerations.
func accepts(node *corev1.Node, tolerations []corev1.Toleration) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable { // The scheduler treats it like this taint.
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	_, isRepelled := schedulingv1.FindMatchingUntoleratedTaint(logr.Discard(), taints, tolerations, func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule
	}, true)
	return !isRepelled
}
