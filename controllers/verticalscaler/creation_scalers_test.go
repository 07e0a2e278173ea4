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

// assertNewPod asserts that the first container of a new pod gets requests.
func (w *workload) assertNewPod(t *testing.T, pod *corev1.Pod, requests corev1.ResourceList) {
	t.Helper()
	created := pod.DeepCopy()
	require.NoError(t, w.env.Client.Create(t.Context(), created, client.DryRunAll))
	testenv.AssertSameJSON(t, requests, created.Spec.Containers[0].Resources.Requests)
}

// TestSizesOfSwappedScalersStayWithTheirDeployments shows that the size in the table belongs to a
// Deployment: when scalers swap their targets while no manager runs, pods keep the size that was
// recommended for them until a manager runs again.
func TestSizesOfSwappedScalersStayWithTheirDeployments(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode)
	testenv.Create(t, env, testenv.NewDeployment(w.namespace, "other"))
	running := testenv.NewPod(w.namespace, "other", "aaaaa")
	running.Spec.Containers = []corev1.Container{newContainer("web", small, nil)}
	testenv.Create(t, env, running)
	testenv.RunPod(t, env, running)
	w.meter.Set(append(testenv.SteadyUsage(w.pods[0], "web", 0.2, 300, 1), testenv.SteadyUsage(running, "web", 0.2, 300, 1)...)...)
	other := testenv.NewScaler(w.namespace, "other", "other")
	other.Spec.UpdateMode, other.Spec.ContainerPolicies = autoscalingv1beta1.UpdateModeInitial, fixedPolicies(huge)
	testenv.Create(t, env, other)
	w.start(t)
	podOfWeb, podOfOther := w.newPod(newContainer("web", small, nil)), w.newPod(newContainer("web", small, nil))
	podOfOther.GenerateName, podOfOther.OwnerReferences[0].Name = "other-", "other-"+testenv.TemplateHash
	w.waitForNewPod(t, podOfWeb, large, nil)
	w.waitForNewPod(t, podOfOther, huge, nil)
	w.manager.Stop()

	setTarget(t, w.scaler, "other")
	setTarget(t, other, "web")
	w.assertNewPod(t, podOfWeb, large)
	w.assertNewPod(t, podOfOther, huge)

	w.start(t)
	w.waitForNewPod(t, podOfOther, large, nil)
	w.waitForNewPod(t, podOfWeb, huge, nil)
}

func TestYoungerScalerSizesNoNewPodsWhileTheOlderIsOff(t *testing.T) {
	t.Parallel()
	var older *autoscalingv1beta1.VerticalScaler
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode, func(w *workload) {
		older = testenv.NewScaler(w.namespace, "a-older", "web") // The name decides if both have the same age.
		older.Spec.UpdateMode, older.Spec.ContainerPolicies = autoscalingv1beta1.UpdateModeInitial, fixedPolicies(huge)
		testenv.Create(t, env, older)
	}).start(t)
	pod := w.newPod(newContainer("web", small, nil))
	w.waitForNewPod(t, pod, huge, nil)

	setSpec(t, older, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff })
	w.waitForNewPod(t, pod, small, nil)
	w.setPolicies(t, testenv.Amounts("200m", "512Mi")) // Reconciles the younger scaler.
	assert.Contains(t, w.waitForApplied(t, isFalse, "Conflicted"), `"a-older"`)
	assert.Empty(t, w.scaler.Status.Sizing)
	w.manager.Stop()
	w.assertNewPod(t, pod, small)
}
