package sizing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// anyContainer is the containerName of the policy for containers without a policy of their own.
const anyContainer = "*"

// Constraints limit the size of a pod's containers, whatever their usage.
type Constraints struct {
	// LimitRanges are the LimitRanges of the namespace.
	LimitRanges []corev1.LimitRange
	// LargestNode is the most of each resource that a node has allocatable on which the pods can
	// run. It is empty if there is no node.
	LargestNode corev1.ResourceList
	// Nodes are the nodes on which new pods can run.
	Nodes *Nodes
}

// Policy returns the recommender's policy for a container. containers is the number of
// containers in the pod.
func Policy(
	spec *autoscalingv1beta1.VerticalScalerSpec, container string, containers int, constraints Constraints,
) recommender.Policy {
	policy := recommender.DefaultPolicy(containers)
	if spec.Recommendation != nil {
		overrideDefaults(&policy, spec.Recommendation, containers)
	}
	if containerPolicy := policyOf(spec, container); containerPolicy != nil {
		lower := ptr.Deref(containerPolicy.MinAllowed, autoscalingv1beta1.ResourceAmounts{})
		upper := ptr.Deref(containerPolicy.MaxAllowed, autoscalingv1beta1.ResourceAmounts{})
		policy.CPU.Allowed = recommender.Range{Min: milliOf(lower.CPU), Max: milliOf(upper.CPU)}
		policy.Memory.Allowed = recommender.Range{Min: bytesOf(lower.Memory), Max: bytesOf(upper.Memory)}
	}
	items := itemsOf(constraints.LimitRanges, corev1.LimitTypeContainer)
	policy.CPU.LimitRange = cpu.minMax(items)
	policy.Memory.LimitRange = memory.minMax(items)
	policy.CPU.NodeSize = constraints.LargestNode.Cpu().MilliValue()
	policy.Memory.NodeSize = constraints.LargestNode.Memory().Value()
	return policy
}

// overrideDefaults sets the fields of the recommender's policy that the scaler's spec sets.
func overrideDefaults(policy *recommender.Policy, spec *autoscalingv1beta1.RecommendationPolicy, containers int) {
	for percentile, percent := range map[*float64]int32{
		&policy.TargetPercentile: spec.TargetPercentile,
		&policy.LowerPercentile:  spec.LowerPercentile,
		&policy.UpperPercentile:  spec.UpperPercentile,
	} {
		if percent > 0 {
			*percentile = float64(percent) / 100
		}
	}
	if spec.MarginPercent != nil {
		policy.Margin = float64(*spec.MarginPercent) / 100
	}
	minimum := ptr.Deref(spec.PodMinimum, autoscalingv1beta1.ResourceAmounts{})
	if minimum.CPU != nil {
		policy.CPU.PodMinimum = recommender.ShareCPU(minimum.CPU.MilliValue(), containers)
	}
	if minimum.Memory != nil {
		policy.Memory.PodMinimum = recommender.ShareMemory(minimum.Memory.Value(), containers)
	}
}

// policyOf returns the policy of a container, or the policy for any container, or nil.
func policyOf(spec *autoscalingv1beta1.VerticalScalerSpec, container string) *autoscalingv1beta1.ContainerPolicy {
	var general *autoscalingv1beta1.ContainerPolicy
	for i := range spec.ContainerPolicies {
		switch policy := &spec.ContainerPolicies[i]; policy.ContainerName {
		case container:
			return policy
		case anyContainer:
			general = policy
		}
	}
	return general
}

// milliOf returns a quantity in thousandths, or 0 if it is nil.
func milliOf(quantity *resource.Quantity) int64 {
	if quantity == nil {
		return 0
	}
	return quantity.MilliValue()
}

// bytesOf returns a quantity in whole units, or 0 if it is nil.
func bytesOf(quantity *resource.Quantity) int64 {
	if quantity == nil {
		return 0
	}
	return quantity.Value()
}
