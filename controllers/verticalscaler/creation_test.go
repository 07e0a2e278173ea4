package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestPodIsCreatedWithItsSizeWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, limits)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, huge))
	w.manager.Stop()
	pod := w.newPod(newContainer("web", small, limits), newContainer("injected", small, nil))
	w.waitForNewPod(t, pod, large, huge)

	testenv.Create(t, env, pod)
	testenv.AssertSameJSON(t, small, pod.Spec.Containers[1].Resources.Requests)
	assert.Equal(t, "web:1", pod.Spec.Containers[0].Image)
}

func TestPodThatDoesNotMatchIsCreatedUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), large, nil)
	otherNamespace := env.Namespace(t)
	for name, change := range map[string]func(*corev1.Pod){
		"Deployment whose name starts with the target's name": func(pod *corev1.Pod) {
			pod.OwnerReferences[0].Name = "web-api-" + testenv.TemplateHash
		},
		"Deployment whose name ends with the target's name": func(pod *corev1.Pod) {
			pod.OwnerReferences[0].Name = "my-web-" + testenv.TemplateHash
		},
		"ReplicaSet of another hash": func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "web-5d8f7c9b6e" },
		"another kind of owner":      func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "StatefulSet" },
		"no owner":                   func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		"no hash":                    func(pod *corev1.Pod) { delete(pod.Labels, "pod-template-hash") },
		"no labels":                  func(pod *corev1.Pod) { pod.Labels = nil },
		"another namespace":          func(pod *corev1.Pod) { pod.Namespace = otherNamespace },
		"another container":          func(pod *corev1.Pod) { pod.Spec.Containers[0].Name = "app" },
		"pod-level resources": func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: large, Limits: large}
		},
	} {
		pod := w.newPod(newContainer("web", small, nil))
		change(pod)
		require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll), name)
		testenv.AssertSameJSON(t, small, pod.Spec.Containers[0].Resources.Requests)
	}
}

func TestContainerWithLimitBelowItsSizeIsCreatedUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil), newContainer("log", small, nil)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, nil), newSizing("log", large, nil))
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), large, nil)
	limits := testenv.Amounts("200m", "512Mi") // From another plugin, or from a template that has just changed.
	pod := w.newPod(newContainer("web", small, limits), newContainer("log", small, nil))
	require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll))
	testenv.AssertSameJSON(t, newContainer("web", small, limits).Resources, pod.Spec.Containers[0].Resources)
	testenv.AssertSameJSON(t, large, pod.Spec.Containers[1].Resources.Requests)
}

func TestSpecChangesApplyToNewPodsWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, nil))
	w.manager.Stop()
	pod, other := w.newPod(newContainer("web", small, nil)), w.newPod(newContainer("web", small, nil))
	other.GenerateName, other.OwnerReferences[0].Name = "other-", "other-"+testenv.TemplateHash
	w.waitForNewPod(t, pod, large, nil)
	for _, change := range []func(*autoscalingv1beta1.VerticalScalerSpec){
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true },
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff },
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = "other" },
	} {
		before := w.scaler.Spec.DeepCopy()
		w.setSpec(t, change)
		w.waitForNewPod(t, pod, small, nil)
		w.waitForNewPod(t, other, small, nil)
		w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { *spec = *before })
		w.waitForNewPod(t, pod, large, nil)
	}
	testenv.Delete(t, env, w.scaler)
	w.waitForNewPod(t, pod, small, nil)
}
