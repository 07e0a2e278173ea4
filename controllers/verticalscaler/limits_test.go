package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// A template with these limits is sized to medium, with limits of three times the requests.
var (
	tripleSmall   = testenv.Amounts("300m", "768Mi")
	tripleMedium  = testenv.Amounts("750m", "1536Mi")
	raisedSmall   = testenv.Amounts("350m", "896Mi")
	raisedMedium  = testenv.Amounts("875m", "1792Mi")
	loweredSmall  = testenv.Amounts("275m", "640Mi")
	loweredMedium = testenv.Amounts("688m", "1280Mi")
)

// upgrades are the ways in which the limits of a Deployment change.
var upgrades = map[string]func(*testing.T, *workload, corev1.ResourceList){
	"helm upgrade": func(t *testing.T, w *workload, limits corev1.ResourceList) {
		testenv.Edit(t, w.env, w.deployment(t), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources.Limits = limits })
	},
	"server-side apply": func(t *testing.T, w *workload, limits corev1.ResourceList) {
		d := w.deployment(t)
		d.Spec.Template.Spec.Containers[0].Resources.Limits = limits
		d.ManagedFields, d.ResourceVersion, d.Status = nil, "", appsv1.DeploymentStatus{}
		d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		require.NoError(t, err)
		require.NoError(t, w.env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(
			&unstructured.Unstructured{Object: content}), client.FieldOwner("chart"), client.ForceOwnership))
	},
}

// newMediumWorkload creates a workload whose pod is resized to medium, and waits until it is.
func newMediumWorkload(t *testing.T) *workload {
	t.Helper()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, tripleSmall)}, func(w *workload) {
		w.scaler.Spec.ContainerPolicies = fixedPolicies(medium)
	}).start(t)
	w.waitForResized(t, medium, tripleMedium, w.pods[0])
	return w
}

// waitForResized waits until pods have resources, and lets them run with these.
func (w *workload) waitForResized(t *testing.T, requests, limits corev1.ResourceList, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		w.waitForResources(t, pod, 0, requests, limits)
		testenv.RunPod(t, w.env, pod)
	}
	w.waitForApplied(t, isTrue, "Sized")
}

// waitForLowered waits until the limits of a pod are lowered in two steps: CPU first, and then
// memory, when the first step is in force.
func (w *workload) waitForLowered(t *testing.T, requests, previous, limits corev1.ResourceList, pod *corev1.Pod) {
	t.Helper()
	first := corev1.ResourceList{corev1.ResourceCPU: limits[corev1.ResourceCPU], corev1.ResourceMemory: previous[corev1.ResourceMemory]}
	w.waitForResources(t, pod, 0, requests, first)
	testenv.RunPod(t, w.env, pod)
	w.waitForResized(t, requests, limits, pod)
}

func TestLimitsOfRunningPodsFollowTheTemplate(t *testing.T) {
	t.Parallel()
	for name, upgrade := range upgrades {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMediumWorkload(t)
			upgrade(t, w, raisedSmall)
			w.waitForResized(t, medium, raisedMedium, w.pods[0])
			upgrade(t, w, loweredSmall)
			w.waitForLowered(t, medium, raisedMedium, loweredMedium, w.pods[0])
			w.assertResizes(t, 4)
		})
	}
}

// TestUpgradeWithoutManagerLeavesNoOldLimits shows that a pod which was created with the sized
// requests and its own limits gets the sized limits when a manager runs again.
func TestUpgradeWithoutManagerLeavesNoOldLimits(t *testing.T) {
	t.Parallel()
	for name, upgrade := range upgrades {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMediumWorkload(t)
			w.waitForTable(t)
			w.manager.Stop()
			upgrade(t, w, raisedSmall)
			created := w.newPod(newContainer("web", small, raisedSmall))
			w.waitForNewPod(t, created, medium, raisedSmall)
			testenv.RunPod(t, env, testenv.Create(t, env, created))
			w.start(t)
			w.waitForResized(t, medium, raisedMedium, w.pods[0], created)
			w.waitForNewPod(t, w.newPod(newContainer("web", small, raisedSmall)), medium, raisedMedium)
		})
	}
}

func TestLimitStaysWhileItsRequestMayNotChange(t *testing.T) {
	t.Parallel()
	w := newMediumWorkload(t)
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Behavior.ScaleUp.SelectPolicy = autoscalingv1beta1.SelectPolicyDisabled
		spec.Behavior.ScaleDown.SelectPolicy = autoscalingv1beta1.SelectPolicyDisabled
	})
	upgrades["helm upgrade"](t, w, raisedSmall)
	w.waitForSizing(t, newSizing("web", medium, raisedMedium))
	upgrades["helm upgrade"](t, w, loweredSmall)
	w.waitForSizing(t, newSizing("web", medium, loweredMedium))
	w.assertResizes(t, 1)
}

// TestRequestOutsideItsTargetKeepsTheTemplatesProportion shows that a limit follows the template
// also while the request waits for the stabilization window.
func TestRequestOutsideItsTargetKeepsTheTemplatesProportion(t *testing.T) {
	t.Parallel()
	w := newMediumWorkload(t)
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.Behavior.ScaleUp.SelectPolicy = autoscalingv1beta1.SelectPolicyDisabled
		spec.ContainerPolicies = fixedPolicies(large)
	})
	w.waitForSizing(t, newSizing("web", large, testenv.Amounts("1500m", "3Gi")))
	upgrades["helm upgrade"](t, w, loweredSmall)
	w.waitForSizing(t, newSizing("web", large, testenv.Amounts("1375m", "2560Mi")))
	w.waitForLowered(t, medium, tripleMedium, loweredMedium, w.pods[0])
	w.assertResizes(t, 3)
}

func TestPinnedSizeDoesNotReplaceTheLimitsOfANewTemplate(t *testing.T) {
	t.Parallel()
	w := newMediumWorkload(t)
	testenv.Edit(t, env, w.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) {
		scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
	})
	upgrades["helm upgrade"](t, w, raisedSmall)
	w.meter.WaitUntilLearned(t) // The manager has observed the upgrade.
	created := testenv.Create(t, env, w.newPod(newContainer("web", small, raisedSmall)))
	testenv.RunPod(t, env, created)
	created.Spec.Containers[0].Resources.Requests = testenv.Amounts("200m", "400Mi")
	require.NoError(t, env.Client.SubResource("resize").Update(t.Context(), created))
	w.waitForResized(t, medium, raisedSmall, created)
	assert.Equal(t, 2, w.resizes())
	w.waitForSizing(t, newSizing("web", medium, tripleMedium))
}

// The limits of a new template can be too low for pods of the one before, which still serve if the
// rollout hangs.
func TestPodsOfAPreviousTemplateKeepTheirLimits(t *testing.T) {
	t.Parallel()
	w := newMediumWorkload(t)
	created := w.newPod(newContainer("web", medium, loweredMedium))
	created.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "bbbbb"
	created.OwnerReferences[0].Name = "web-bbbbb"
	testenv.WaitForNextSecond(t, w.pods[0])
	testenv.Create(t, env, created)
	upgrades["helm upgrade"](t, w, loweredSmall)
	w.waitForSizing(t, newSizing("web", medium, loweredMedium))
	w.assertResizes(t, 1)
	w.waitForResources(t, w.pods[0], 0, medium, tripleMedium)
}
