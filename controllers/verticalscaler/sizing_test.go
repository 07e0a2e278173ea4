package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestSizingFollowsTheTargetsWithLimitsInProportion(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{
		sells("web", small, amounts("200m", "512Mi")), sells("log", small, nil),
	}).open(t)
	s.sizing(t, size("web", large, amounts("1", "2Gi")), size("log", large, nil))
	assertSame(t, large, s.scaler.Status.Recommendations[0].Target)

	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.ContainerPolicies = always(huge) })
	s.sizing(t, size("web", huge, amounts("2", "4Gi")), size("log", huge, nil))
}

func TestSizingFollowsTheTemplateOfTheDeployment(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t)
	s.sizing(t, size("web", large, nil))
	edit(t, deployment(t, s.namespace, "web"), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources.Limits = small
	})
	s.sizing(t, size("web", large, large))
}

func TestContainersThatAreNotInTheTemplateHaveNoSize(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.pods[0].Spec.Containers = []corev1.Container{sells("web", small, nil), sells("injected", small, nil)}
	}).open(t)
	s.sizing(t, size("web", large, nil))
	assert.Len(t, s.scaler.Status.Recommendations, 2)
	s.applied(t, isFalse, "Resizing")
	has(t, s.pods[0], 1, small, nil)
}

func TestPoliciesOfContainersDecideWhatIsSized(t *testing.T) {
	t.Parallel()
	limits := amounts("200m", "512Mi")
	s := newShop(t, 1, []corev1.Container{sells("web", small, limits), sells("log", small, limits), sells("off", small, limits)}, func(s *shop) {
		exactly := always(large)[0]
		memory, requests := exactly, exactly
		memory.ContainerName, memory.ControlledResources = "web", []autoscalingv1beta1.ControlledResource{"memory"}
		requests.ContainerName, requests.ControlledValues = "log", autoscalingv1beta1.ControlledValuesRequestsOnly
		s.scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
			memory, requests, {ContainerName: "off", Mode: autoscalingv1beta1.ContainerModeOff},
		}
	}).open(t)
	s.sizing(t,
		size("web", corev1.ResourceList{corev1.ResourceMemory: large[corev1.ResourceMemory]}, corev1.ResourceList{corev1.ResourceMemory: huge[corev1.ResourceMemory]}),
		size("log", limits, nil), // A request above the limit would not be accepted.
	)
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", Mode: autoscalingv1beta1.ContainerModeOff}}
	})
	s.sizing(t)
	s.applied(t, isFalse, "NothingToApply")
}

func TestALimitRangeBoundsTheSizeAndItsGoingIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, amounts("200m", "512Mi"))}, func(s *shop) {
		s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	}).open(t)
	s.sizing(t, size("web", large, amounts("1", "2Gi")))
	limits := create(t, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: amounts("600m", "1536Mi")},
		}},
	})
	s.sizing(t, size("web", large, amounts("600m", "1536Mi")))
	remove(t, limits)
	s.sizing(t, size("web", large, amounts("1", "2Gi")))
}

func TestSizingIsEmptyWhereNothingMayBeApplied(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	}).open(t)
	s.applied(t, isTrue, "SizedAtCreation")
	s.sizing(t, size("web", large, nil))
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.ContainerPolicies = true, always(huge)
	})
	s.applied(t, isFalse, "Suspended")
	s.sizing(t)
	assertSame(t, large, s.scaler.Status.PodTarget)
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.UpdateMode = false, autoscalingv1beta1.UpdateModeOff
	})
	s.applied(t, isFalse, "UpdateModeOff")
	s.sizing(t)
	assertSame(t, huge, s.scaler.Status.PodTarget)
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	})
	s.applied(t, isTrue, "SizedAtCreation")
	s.sizing(t, size("web", huge, nil))
}

func TestTheYoungerOfTwoScalersSizesNothingUntilTheOlderIsGone(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	})
	nextSecond(t, s.scaler)
	younger := newScaler(s.namespace, "younger", "web")
	younger.Spec = *s.scaler.Spec.DeepCopy()
	create(t, younger)
	s.open(t)
	s.sizing(t, size("web", large, nil))
	older := s.scaler
	s.scaler = younger
	s.applied(t, isFalse, "Conflicted")
	s.sizing(t)
	remove(t, older)
	s.sizing(t, size("web", large, nil))
	s.applied(t, isTrue, "SizedAtCreation")
}

func TestAPinnedSizeStaysWhateverIsRecommended(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t)
	s.sizing(t, size("web", large, nil))
	edit(t, s.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) {
		scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
		scaler.Spec.ContainerPolicies = always(huge)
	})
	has(t, s.pods[0], 0, large, nil)
	runs(t, s.pods[0])
	message := s.applied(t, isTrue, "Sized")
	assert.Contains(t, message, "pinned by the annotation")
	assertSame(t, huge, s.scaler.Status.PodTarget)
	s.sizing(t, size("web", large, nil))
	edit(t, s.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Annotations = nil })
	s.sizing(t, size("web", huge, nil))
	has(t, s.pods[0], 0, huge, nil)
}

func TestSizingStaysWhileTheTargetIsAway(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t)
	s.sizing(t, size("web", large, nil))
	target := deployment(t, s.namespace, "web")
	require.NoError(t, env.Client.Delete(t.Context(), target))
	remove(t, s.pods[0])
	s.applied(t, isFalse, "DeploymentNotFound")
	s.sizing(t, size("web", large, nil))
}

func TestTheSizeOfOneDeploymentIsNotGivenToThePodsOfAnother(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}).open(t)
	s.sizing(t, size("web", large, nil))
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = "other" })
	s.applied(t, isFalse, "DeploymentNotFound")
	s.sizing(t)
	create(t, foreign(s.namespace, "other"))
	s.applied(t, isFalse, "NothingToApply")
	s.sizing(t)
}

func TestAppliedSaysSizedWhenAllPodsAre(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2, []corev1.Container{sells("web", large, nil)}).open(t)
	s.applied(t, isTrue, "Sized")
	assert.Zero(t, s.resizes())
}
