package verticalscaler

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestPodIsCreatedWithItsSizeWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, limits)}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, huge))
	w.waitForTable(t)
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

// specsWithoutSizes are changes of a scaler's spec after which the pods of "web" get no size.
var specsWithoutSizes = map[string]func(*autoscalingv1beta1.VerticalScalerSpec){
	"suspend":        func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true },
	"Off":            func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff },
	"another target": func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = "other" },
}

func TestSpecChangesApplyToNewPods(t *testing.T) {
	t.Parallel()
	for name, change := range specsWithoutSizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
			pod, other := w.newPod(newContainer("web", small, nil)), w.newPod(newContainer("web", small, nil))
			other.GenerateName, other.OwnerReferences[0].Name = "other-", "other-"+testenv.TemplateHash
			w.waitForNewPod(t, pod, large, nil)
			w.setSpec(t, change)
			w.waitForNewPod(t, pod, small, nil)
			w.waitForNewPod(t, other, small, nil)
			w.waitForNoTable(t)
		})
	}
	t.Run("deletion and return", func(t *testing.T) {
		t.Parallel()
		w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
		pod := w.newPod(newContainer("web", small, nil))
		w.waitForNewPod(t, pod, large, nil)
		w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
		w.waitForNewPod(t, pod, small, nil)
		w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = false })
		w.waitForNewPod(t, pod, large, nil)
		testenv.Delete(t, env, w.scaler)
		w.waitForNewPod(t, pod, small, nil)
		w.waitForNoTable(t)
	})
}

// TestSpecChangesWithoutManagerApplyWhenOneStarts shows that new pods keep getting the sizes of the
// table while no manager runs, and that the next manager catches up.
func TestSpecChangesWithoutManagerApplyWhenOneStarts(t *testing.T) {
	t.Parallel()
	for name, change := range specsWithoutSizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
			pod := w.newPod(newContainer("web", small, nil))
			w.waitForNewPod(t, pod, large, nil)
			w.manager.Stop()
			w.setSpec(t, change)
			w.waitForNewPod(t, pod, large, nil)
			w.start(t)
			w.waitForNewPod(t, pod, small, nil)
		})
	}
	t.Run("deletion", func(t *testing.T) {
		t.Parallel()
		w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
		pod := w.newPod(newContainer("web", small, nil))
		w.waitForNewPod(t, pod, large, nil)
		w.manager.Stop()
		testenv.Delete(t, env, w.scaler)
		w.waitForNewPod(t, pod, large, nil)
		w.start(t)
		w.waitForNoTable(t)
		w.waitForNewPod(t, pod, small, nil)
	})
}

// TestNewPodKeepsLimitsThatItsSizeWasNotComputedFor shows new pods after an upgrade that changes
// limits: an old limit never replaces a new one.
func TestNewPodKeepsLimitsThatItsSizeWasNotComputedFor(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, limits)}, useInitialMode).start(t)
	w.waitForNewPod(t, w.newPod(newContainer("web", small, limits)), large, huge)
	w.manager.Stop()
	for name, test := range map[string]struct{ limits, wantRequests, wantLimits corev1.ResourceList }{
		"same limits, other notation": {testenv.Amounts("0.2", "536870912"), large, huge},
		"higher limits":               {testenv.Amounts("2", "3Gi"), large, testenv.Amounts("2", "3Gi")},
		"limits equal to the size":    {large, small, large}, // Equal amounts could change the QoS class.
		"another CPU limit": {
			testenv.Amounts("300m", "512Mi"), testenv.Amounts("100m", "1Gi"), testenv.Amounts("300m", "2Gi"),
		},
		"lower limits": {testenv.Amounts("150m", "300Mi"), small, testenv.Amounts("150m", "300Mi")},
		"no limits":    {nil, large, nil},
	} {
		pod := w.newPod(newContainer("web", small, test.limits))
		require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll), name)
		testenv.AssertSameJSON(t, corev1.ResourceRequirements{Requests: test.wantRequests, Limits: test.wantLimits}, pod.Spec.Containers[0].Resources)
	}
}

// TestSizingKeepsTheOrderOfContainers shows that init containers still start in the order of the
// template, whichever of them are sized.
func TestSizingKeepsTheOrderOfContainers(t *testing.T) {
	t.Parallel()
	names := func(containers []corev1.Container) []string {
		var all []string
		for i := range containers {
			all = append(all, containers[i].Name)
		}
		return all
	}
	namespace := env.Namespace(t)
	sized := autoscalingv1beta1.ContainerSize{Requests: large}
	testenv.Create(t, env, &autoscalingv1beta1.SizeTable{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName},
		Deployments: map[string]autoscalingv1beta1.PodSize{
			"web": {"web": sized, "proxy": sized, "vault": sized, "migrate": sized, "gone": sized},
		},
	})
	pod := testenv.NewPod(namespace, "web", "", "log", "web", "metrics")
	pod.GenerateName, pod.Name = pod.Name, ""
	for _, name := range []string{"proxy", "migrate", "vault"} {
		container := testenv.NewContainer(name)
		if name != "migrate" {
			container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		container.Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	var created *corev1.Pod
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		created = pod.DeepCopy()
		if assert.NoError(c, env.Client.Create(context.Background(), created, client.DryRunAll)) {
			testenv.AssertSameJSON(c, large, created.Spec.Containers[1].Resources.Requests)
		}
	}, testenv.Timeout, testenv.Poll)
	assert.Equal(t, []string{"proxy", "migrate", "vault"}, names(created.Spec.InitContainers))
	assert.Equal(t, []string{"log", "web", "metrics"}, names(created.Spec.Containers))
	withStorage := func(amounts corev1.ResourceList) corev1.ResourceList {
		amounts = amounts.DeepCopy()
		amounts[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		return amounts
	}
	for i, want := range []corev1.ResourceList{withStorage(large), withStorage(small), withStorage(large)} {
		testenv.AssertSameJSON(t, want, created.Spec.InitContainers[i].Resources.Requests)
	}
	testenv.AssertSameJSON(t, small, created.Spec.Containers[0].Resources.Requests)
	testenv.AssertSameJSON(t, small, created.Spec.Containers[2].Resources.Requests)
}

// TestSizesInAnyNotationAreCompared shows that the policy compares amounts and not their text.
func TestSizesInAnyNotationAreCompared(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	testenv.Create(t, env, &autoscalingv1beta1.SizeTable{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: autoscalingv1beta1.SizeTableName},
		Deployments: map[string]autoscalingv1beta1.PodSize{
			"web": {"web": {Requests: testenv.Amounts("0.5", "1G"), Limits: testenv.Amounts("1e3", "2e9"), TemplateLimits: testenv.Amounts("1", "1e9")}},
		},
	})
	pod := testenv.NewPod(namespace, "web", "", "web")
	pod.GenerateName, pod.Name = pod.Name, ""
	pod.Spec.Containers[0].Resources.Limits = testenv.Amounts("1000m", "1000M")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		created := pod.DeepCopy()
		if assert.NoError(c, env.Client.Create(context.Background(), created, client.DryRunAll)) {
			resources := created.Spec.Containers[0].Resources
			assert.Equal(c, int64(500), resources.Requests.Cpu().MilliValue())
			assert.Equal(c, int64(1e9), resources.Requests.Memory().Value())
			assert.Equal(c, int64(1000), resources.Limits.Cpu().Value())
			assert.Equal(c, int64(2e9), resources.Limits.Memory().Value())
		}
	}, testenv.Timeout, testenv.Poll)
}
