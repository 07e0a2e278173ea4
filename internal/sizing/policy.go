package sizing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// everyContainer is the name in a policy for the containers that have none of their own.
const everyContainer = "*"

// Surroundings is what limits the size of a pod's containers, whatever their usage.
type Surroundings struct {
	// LimitRanges are those of the namespace.
	LimitRanges []corev1.LimitRange
	// LargestNode is the most that any node has to give of a resource; none where there is no
	// node.
	LargestNode corev1.ResourceList
}

// Policy returns how a container's size is recommended, in a pod of so many containers.
func Policy(spec *autoscalingv1beta1.VerticalScalerSpec, container string, containers int, around Surroundings) recommender.Policy {
	policy := recommender.DefaultPolicy(containers)
	if asked := spec.Recommendation; asked != nil {
		applyRecommendationPolicy(&policy, asked, containers)
	}
	if asked := policyOf(spec, container); asked != nil {
		least := ptr.Deref(asked.MinAllowed, autoscalingv1beta1.ResourceAmounts{})
		most := ptr.Deref(asked.MaxAllowed, autoscalingv1beta1.ResourceAmounts{})
		policy.CPU.Allowed = recommender.Range{Min: milliOf(least.CPU), Max: milliOf(most.CPU)}
		policy.Memory.Allowed = recommender.Range{Min: bytesOf(least.Memory), Max: bytesOf(most.Memory)}
	}
	items := itemsOf(around.LimitRanges, corev1.LimitTypeContainer)
	policy.CPU.LimitRange = cpu.allowedBy(items)
	policy.Memory.LimitRange = memory.allowedBy(items)
	policy.CPU.NodeSize = around.LargestNode.Cpu().MilliValue()
	policy.Memory.NodeSize = around.LargestNode.Memory().Value()
	return policy
}

// applyRecommendationPolicy puts in place of the defaults what a scaler asks for.
func applyRecommendationPolicy(policy *recommender.Policy, asked *autoscalingv1beta1.RecommendationPolicy, containers int) {
	for share, percent := range map[*float64]int32{
		&policy.TargetPercentile: asked.TargetPercentile,
		&policy.LowerPercentile:  asked.LowerPercentile,
		&policy.UpperPercentile:  asked.UpperPercentile,
	} {
		if percent > 0 {
			*share = float64(percent) / 100
		}
	}
	if asked.MarginPercent != nil {
		policy.Margin = float64(*asked.MarginPercent) / 100
	}
	minimum := ptr.Deref(asked.PodMinimum, autoscalingv1beta1.ResourceAmounts{})
	if minimum.CPU != nil {
		policy.CPU.PodMinimum = recommender.ShareCPU(minimum.CPU.MilliValue(), containers)
	}
	if minimum.Memory != nil {
		policy.Memory.PodMinimum = recommender.ShareMemory(minimum.Memory.Value(), containers)
	}
}

// policyOf returns a container's policy, that of all containers where it has none of its own,
// or nil.
func policyOf(spec *autoscalingv1beta1.VerticalScalerSpec, container string) *autoscalingv1beta1.ContainerPolicy {
	var general *autoscalingv1beta1.ContainerPolicy
	for i := range spec.ContainerPolicies {
		switch policy := &spec.ContainerPolicies[i]; policy.ContainerName {
		case container:
			return policy
		case everyContainer:
			general = policy
		}
	}
	return general
}

// milliOf returns a quantity's thousandths, 0 where there is none.
func milliOf(quantity *resource.Quantity) int64 {
	if quantity == nil {
		return 0
	}
	return quantity.MilliValue()
}

// bytesOf returns a quantity's whole units, 0 where there is none.
func bytesOf(quantity *resource.Quantity) int64 {
	if quantity == nil {
		return 0
	}
	return quantity.Value()
}
