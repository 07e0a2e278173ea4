package sizing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// newNode returns a node with allocatable amounts.
func newNode(name string, allocatable corev1.ResourceList, changes ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: list("64", "1Ti")}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

func cordon(n *corev1.Node) { n.Spec.Unschedulable = true }

// taint returns a change that adds a taint with an effect.
func taint(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "gpu", Effect: effect})
	}
}

// newDaemon returns a pod of a DaemonSet.
func newDaemon(node string, requests corev1.ResourceList) corev1.Pod {
	pod := corev1.Pod{}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: "agent", Resources: corev1.ResourceRequirements{Requests: requests}}}
	return pod
}

func TestPodFitsOnlyANodeThatTakesIt(t *testing.T) {
	t.Parallel()
	arm := func(n *corev1.Node) { n.Labels = map[string]string{"kubernetes.io/arch": "arm64"} }
	tolerating := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}}
	onArm := corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/arch": "arm64"}}
	notOnArm := corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "kubernetes.io/arch", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"arm64"},
			}},
		}}},
	}}}
	onNode := func(name string) corev1.PodSpec {
		spec := notOnArm.DeepCopy()
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name},
			}},
		}}
		return *spec
	}
	small, large := list("1", "1Gi"), list("4", "8Gi")
	for name, test := range map[string]struct {
		nodes    []corev1.Node
		daemons  []corev1.Pod
		template corev1.PodSpec
		requests corev1.ResourceList
		want     bool
	}{
		"no node":                          {requests: small},
		"node without allocatable":         {nodes: []corev1.Node{newNode("a", nil)}, requests: small},
		"exactly the node":                 {nodes: []corev1.Node{newNode("a", large)}, requests: large, want: true},
		"two nodes only together":          {nodes: []corev1.Node{newNode("a", list("4", "1Gi")), newNode("b", list("1", "8Gi"))}, requests: large},
		"the second node":                  {nodes: []corev1.Node{newNode("a", small), newNode("b", large)}, requests: large, want: true},
		"no requests":                      {nodes: []corev1.Node{newNode("a", small)}, want: true},
		"DaemonSets take the rest":         {nodes: []corev1.Node{newNode("a", large)}, daemons: []corev1.Pod{newDaemon("a", list("100m", "")), newDaemon("a", list("1", ""))}, requests: list("3", "1Gi")},
		"DaemonSets leave just enough":     {nodes: []corev1.Node{newNode("a", large)}, daemons: []corev1.Pod{newDaemon("a", list("1", ""))}, requests: list("3", "8Gi"), want: true},
		"DaemonSets are on another node":   {nodes: []corev1.Node{newNode("a", large), newNode("b", large)}, daemons: []corev1.Pod{newDaemon("b", list("1", ""))}, requests: large, want: true},
		"cordoned":                         {nodes: []corev1.Node{newNode("a", large, cordon)}, requests: small},
		"tainted NoSchedule":               {nodes: []corev1.Node{newNode("a", large, taint(corev1.TaintEffectNoSchedule))}, requests: small},
		"tainted NoExecute":                {nodes: []corev1.Node{newNode("a", large, taint(corev1.TaintEffectNoExecute))}, requests: small},
		"tainted PreferNoSchedule":         {nodes: []corev1.Node{newNode("a", large, taint(corev1.TaintEffectPreferNoSchedule))}, requests: small, want: true},
		"tolerated":                        {nodes: []corev1.Node{newNode("a", large, taint(corev1.TaintEffectNoSchedule))}, template: tolerating, requests: small, want: true},
		"another taint is not tolerated":   {nodes: []corev1.Node{newNode("a", large, taint(corev1.TaintEffectNoSchedule), cordon)}, template: tolerating, requests: small},
		"nodeSelector selects the node":    {nodes: []corev1.Node{newNode("a", large, arm)}, template: onArm, requests: small, want: true},
		"nodeSelector selects a small one": {nodes: []corev1.Node{newNode("a", small, arm), newNode("b", large)}, template: onArm, requests: large},
		"affinity excludes the node":       {nodes: []corev1.Node{newNode("a", large, arm)}, template: notOnArm, requests: small},
		"affinity includes the node":       {nodes: []corev1.Node{newNode("a", large)}, template: notOnArm, requests: small, want: true},
		"affinity names the node":          {nodes: []corev1.Node{newNode("a", large)}, template: onNode("a"), requests: small, want: true},
		"affinity names another node":      {nodes: []corev1.Node{newNode("a", large)}, template: onNode("b"), requests: small},
	} {
		nodes := NewNodes(test.nodes, test.daemons)
		assert.Equal(t, test.want, nodes.Fits(&test.template, test.requests), name)
		assert.Equal(t, len(test.nodes) == 0, nodes.IsEmpty(), name)
	}
	assert.True(t, (*Nodes)(nil).IsEmpty())
	assert.False(t, (*Nodes)(nil).Fits(&corev1.PodSpec{}, small))
}

func TestLargestNodeHasMaximumOfEachResource(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		nodes       []corev1.Node
		largest     corev1.ResourceList
		cpu, memory int64
	}{
		"no node":                         {nil, list("", ""), 0, 0},
		"node without allocatable":        {[]corev1.Node{newNode("a", nil)}, list("", ""), 0, 0},
		"one node":                        {[]corev1.Node{newNode("a", list("1930m", "7Gi"))}, list("1930m", "7Gi"), 1930, 7168 * mebi},
		"each resource from another node": {[]corev1.Node{newNode("a", list("2", "8Gi")), newNode("b", list("4", "4Gi")), newNode("c", list("1", "1Gi"))}, list("4", "8Gi"), 4000, 8192 * mebi},
		"node with CPU only":              {[]corev1.Node{newNode("a", list("4", "")), newNode("b", list("2", "4Gi"))}, list("4", "4Gi"), 4000, 4096 * mebi},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			largest := NewNodes(test.nodes, nil).Largest(nil)
			assert.Equal(t, test.largest, largest)
			got := Policy(&autoscalingv1beta1.VerticalScalerSpec{}, "app", 1, Constraints{LargestNode: largest})
			assert.Equal(t, test.cpu, got.CPU.NodeSize)
			assert.Equal(t, test.memory, got.Memory.NodeSize)
		})
	}
	assert.Empty(t, (*Nodes)(nil).Largest(nil))
}

func TestLargestNodeIsOneThatThePodsCanUse(t *testing.T) {
	t.Parallel()
	open := newNode("open", list("4", "8Gi"))
	dedicated := newNode("dedicated", list("32", "64Gi"), taint(corev1.TaintEffectNoSchedule))
	cordoned := newNode("cordoned", list("16", "16Gi"), cordon)
	on := func(names ...string) (pods []corev1.Pod) {
		for _, name := range names {
			pods = append(pods, newDaemon(name, nil))
		}
		return pods
	}
	for name, test := range map[string]struct {
		nodes []corev1.Node
		pods  []corev1.Pod
		want  corev1.ResourceList
	}{
		"nodes of others do not count":      {[]corev1.Node{open, dedicated, cordoned}, on("", "open"), list("4", "8Gi")},
		"a pod runs on the dedicated node":  {[]corev1.Node{open, dedicated, cordoned}, on("open", "dedicated"), list("32", "64Gi")},
		"a pod still runs on the cordoned":  {[]corev1.Node{open, dedicated, cordoned}, on("cordoned"), list("16", "16Gi")},
		"without an open node, all count":   {[]corev1.Node{dedicated, cordoned}, nil, list("32", "64Gi")},
		"a smaller dedicated node is known": {[]corev1.Node{open, newNode("small", list("1", "1Gi"), cordon)}, on("small"), list("4", "8Gi")},
	} {
		nodes := NewNodes(test.nodes, nil)
		assert.Equal(t, test.want, nodes.Largest(test.pods), name)
		assert.Equal(t, test.want, nodes.Largest(test.pods), "%s, again", name)
	}
}
