package verticalscaler

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/sizing"
)

// defaultMinimumHistory is the API's default of spec.behavior.scaleDown.minimumHistorySeconds.
const defaultMinimumHistory = 24 * time.Hour

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
		s.recommendedSizing = s.recommendedSizes()
		sizes, fallback := s.fallBack(s.recommendedSizing)
		sizing.SetTemplateLimits(sizes, &s.deployment.Spec.Template.Spec, s.constraints.LimitRanges)
		s.status.Sizing, s.status.Fallback = sizes, fallback
	}
}

// recommendedSizes returns the size of each container of the template that has a target. A
// container that is not in the template, because an admission plugin adds it, is not sized.
func (s *scope) recommendedSizes() []autoscalingv1beta1.ContainerSizing {
	template := &s.deployment.Spec.Template.Spec
	targets, previous := map[string]corev1.ResourceList{}, s.revertedSizes()
	for _, own := range sizing.OfTemplate(template, s.constraints.LimitRanges) {
		target := maps.Clone(s.recommendedFor(own.ContainerName))
		maps.DeleteFunc(target, func(name corev1.ResourceName, _ resource.Quantity) bool { return s.scaledByHPA[name] != "" })
		if size := sizing.SizeOf(previous, own.ContainerName); size != nil {
			sizing.RaiseTargets(&s.scaler.Spec, own.ContainerName, target, size.Requests)
		}
		s.withholdUnproven(&own, target)
		targets[own.ContainerName] = target
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

// withholdUnproven removes the targets of a container that are below what the template requests,
// until its history is long enough. New pods then get what the template requests. own are the
// template's resources.
func (s *scope) withholdUnproven(own *autoscalingv1beta1.ContainerSizing, targets corev1.ResourceList) {
	left := s.minimumHistory() - s.historyOf(own.ContainerName)
	if left <= 0 {
		return
	}
	before := len(targets)
	maps.DeleteFunc(targets, func(name corev1.ResourceName, target resource.Quantity) bool {
		request := own.Requests[name]
		return target.Cmp(request) < 0
	})
	if len(targets) < before {
		s.unproven = append(s.unproven, strconv.Quote(own.ContainerName))
		// The span of the history grows when the next samples are read.
		s.result.requeueIn(max(left, time.Minute))
	}
}

func (s *scope) minimumHistory() time.Duration {
	behavior := s.scaler.Spec.Behavior
	if behavior != nil && behavior.ScaleDown != nil && behavior.ScaleDown.MinimumHistorySeconds != nil {
		return time.Duration(*behavior.ScaleDown.MinimumHistorySeconds) * time.Second
	}
	return defaultMinimumHistory
}

// historyOf returns the time that the usage history of a container spans.
func (s *scope) historyOf(container string) time.Duration {
	if found := recommendation.ForContainer(s.recommendation.Recommendations, container); found != nil {
		return found.Span.Duration
	}
	return 0
}

// unprovenMessage describes which containers wait for a longer history.
func (s *scope) unprovenMessage() string {
	return fmt.Sprintf("A size below the Deployment's template needs %s of usage history; these containers keep what the template requests: %s.",
		s.minimumHistory(), strings.Join(s.unproven, ", "))
}
