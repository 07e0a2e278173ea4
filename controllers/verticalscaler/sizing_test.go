package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestSizingFollowsTargetsWithProportionalLimits(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{
		newContainer("web", small, testenv.Amounts("200m", "512Mi")), newContainer("log", small, nil),
	}).start(t)
	w.waitForSizing(t, newSizing("web", large, huge), newSizing("log", large, nil))
	testenv.AssertSameJSON(t, large, w.scaler.Status.Recommendations[0].Target)

	w.setPolicies(t, huge)
	w.waitForSizing(t, newSizing("web", huge, testenv.Amounts("2", "4Gi")), newSizing("log", huge, nil))
}

func TestSizingFollowsTheDeploymentsTemplate(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	testenv.Edit(t, env, w.deployment(t), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources.Limits = small
	})
	w.waitForSizing(t, newSizing("web", large, large))
}

func TestContainerThatIsNotInTheTemplateIsNotSized(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, func(w *workload) {
		w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", small, nil), newContainer("injected", small, nil)}
	}).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	assert.Len(t, w.scaler.Status.Recommendations, 2)
	w.waitForApplied(t, isFalse, "Resizing")
	w.waitForResources(t, w.pods[0], 1, small, nil)
}

func TestContainerPoliciesSelectWhatIsSized(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{
		newContainer("web", small, limits), newContainer("log", small, limits), newContainer("off", small, limits),
	}, func(w *workload) {
		memory, requests := fixedPolicies(large)[0], fixedPolicies(large)[0]
		memory.ContainerName, memory.ControlledResources = "web", []autoscalingv1beta1.ControlledResource{"memory"}
		requests.ContainerName, requests.ControlledValues = "log", autoscalingv1beta1.ControlledValuesRequestsOnly
		w.scaler.Spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{
			memory, requests, {ContainerName: "off", Mode: autoscalingv1beta1.ContainerModeOff},
		}
	}).start(t)
	w.waitForSizing(t,
		newSizing("web", only(corev1.ResourceMemory, large), only(corev1.ResourceMemory, huge)),
		newSizing("log", testenv.Amounts("199m", "511Mi"), nil), // A request stays below its limit.
	)
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.ContainerPolicies = []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", Mode: autoscalingv1beta1.ContainerModeOff}}
	})
	w.waitForSizing(t)
	w.waitForApplied(t, isFalse, "NothingToApply")
}

func TestSizingIsEmptyIfSizesMustNotBeApplied(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForApplied(t, isTrue, "SizedAtCreation")
	w.waitForSizing(t, newSizing("web", large, nil))
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.ContainerPolicies = true, fixedPolicies(huge)
	})
	w.waitForApplied(t, isFalse, "Suspended")
	w.waitForSizing(t)
	testenv.AssertSameJSON(t, large, w.scaler.Status.PodTarget)
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Suspend, spec.UpdateMode = false, autoscalingv1beta1.UpdateModeOff
	})
	w.waitForApplied(t, isFalse, "UpdateModeOff")
	w.waitForSizing(t)
	testenv.AssertSameJSON(t, huge, w.scaler.Status.PodTarget)
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	})
	w.waitForApplied(t, isTrue, "SizedAtCreation")
	w.waitForSizing(t, newSizing("web", huge, nil))
}

func TestYoungerScalerSizesNothingUntilTheOlderIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	older := w.scaler
	testenv.WaitForNextSecond(t, older)
	younger := testenv.NewScaler(w.namespace, "younger", "web")
	younger.Spec = *older.Spec.DeepCopy()
	testenv.Create(t, env, younger)
	w.start(t).waitForSizing(t, newSizing("web", large, nil))
	w.scaler = younger
	w.waitForApplied(t, isFalse, "Conflicted")
	w.waitForSizing(t)
	testenv.Delete(t, env, older)
	w.waitForSizing(t, newSizing("web", large, nil))
	w.waitForApplied(t, isTrue, "SizedAtCreation")
}

func TestPinnedSizeDoesNotFollowTheRecommendation(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	testenv.Edit(t, env, w.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) {
		scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
		scaler.Spec.ContainerPolicies = fixedPolicies(huge)
	})
	w.waitForResources(t, w.pods[0], 0, large, nil)
	testenv.RunPod(t, env, w.pods[0])
	assert.Contains(t, w.waitForApplied(t, isTrue, "Sized"), "The annotation "+autoscalingv1beta1.AnnotationPin+" pins the size.")
	testenv.AssertSameJSON(t, huge, w.scaler.Status.PodTarget)
	w.waitForSizing(t, newSizing("web", large, nil))
	testenv.Edit(t, env, w.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Annotations = nil })
	w.waitForSizing(t, newSizing("web", huge, nil))
	w.waitForResources(t, w.pods[0], 0, huge, nil)
}

func TestSizingStaysWhileTheTargetDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	testenv.Delete(t, env, w.deployment(t))
	testenv.Delete(t, env, w.pods[0])
	w.waitForApplied(t, isFalse, "DeploymentNotFound")
	w.waitForSizing(t, newSizing("web", large, nil))
}

func TestSizingOfOneTargetIsNotUsedForAnother(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	setTarget(t, w.scaler, "other")
	w.waitForApplied(t, isFalse, "DeploymentNotFound")
	w.waitForSizing(t)
	testenv.Create(t, env, testenv.NewDeployment(w.namespace, "other"))
	w.waitForApplied(t, isFalse, "NothingToApply")
	w.waitForSizing(t)
}
