package verticalscaler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/pods"
	"example.com/upright/internal/sizing"
)

// setSizing sets the size of new pods in the status. The size does not change while the target
// does not exist.
func (s *scope) setSizing() {
	switch {
	case s.older != nil || s.scaler.Spec.Suspend || s.scaler.Spec.UpdateMode == autoscalingv1beta1.UpdateModeOff:
		s.status.Sizing, s.status.Fallback = nil, nil
	case s.isPinned():
		s.status.Fallback = nil
	case len(s.status.Recommendations) == 0:
		s.status.Sizing, s.status.Fallback = nil, nil
	case s.deployment == nil:
	default:
		sizes, fallback := s.fallBack(s.recommendedSizes())
		sizing.SetTemplateLimits(sizes, &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges)
		s.status.Sizing, s.status.Fallback = sizes, fallback
	}
}

// recommendedSizes returns the size of each container of the template that has a target. A
// container that is not in the template, because an admission plugin adds it, is not sized.
func (s *scope) recommendedSizes() []autoscalingv1beta1.ContainerSizing {
	template := &s.deployment.Spec.Template.Spec
	targets := map[string]corev1.ResourceList{}
	for _, container := range pods.Sizable(template) {
		target := maps.Clone(s.recommendedFor(container.Name))
		maps.DeleteFunc(target, func(name corev1.ResourceName, _ resource.Quantity) bool { return s.scaledByHPA[name] != "" })
		targets[container.Name] = target
	}
	return sizing.Template(&s.scaler.Spec, template, targets, s.constraints)
}

// recommendedFor returns the target of a container, or nil.
func (s *scope) recommendedFor(container string) corev1.ResourceList {
	if found := recommendation.ForContainer(s.status.Recommendations, container); found != nil {
		return found.Target
	}
	return nil
}
