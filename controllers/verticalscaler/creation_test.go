package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// newcomer returns a pod as the Deployment "web" of a shop makes one.
func (s *shop) newcomer(containers ...corev1.Container) *corev1.Pod {
	pod := newPod(s.namespace, "web", "")
	pod.GenerateName, pod.Name = pod.Name, ""
	pod.Spec.Containers = containers
	return pod
}

// born waits until a pod like this one is born with requests and limits in its first container:
// the API server sees a scaler's status a moment after it was written.
func (s *shop) born(t *testing.T, pod *corev1.Pod, requests, limits corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		created := pod.DeepCopy()
		if assert.NoError(c, env.Client.Create(t.Context(), created, client.DryRunAll)) {
			assertSame(c, corev1.ResourceRequirements{Requests: requests, Limits: limits}, created.Spec.Containers[0].Resources)
		}
	}, soon, often)
}

// initially has a shop's scaler size pods at birth alone.
func initially(s *shop) { s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial }

func TestPodsOfTheDeploymentAreBornAtTheirSizeAlsoWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	limits := amounts("200m", "512Mi")
	s := newShop(t, 1, []corev1.Container{sells("web", small, limits)}, initially).open(t)
	s.sizing(t, size("web", large, huge))
	s.manager.stop()
	pod := s.newcomer(sells("web", small, limits), sells("injected", small, nil))
	s.born(t, pod, large, huge)

	create(t, pod)
	assertSame(t, small, pod.Spec.Containers[1].Resources.Requests)
	assert.Equal(t, "web:1", pod.Spec.Containers[0].Image)
}

func TestPodsThatOnlyLookLikeTheDeploymentsAreBornAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially).open(t)
	s.sizing(t, size("web", large, nil))
	s.born(t, s.newcomer(sells("web", small, nil)), large, nil)
	elsewhere := env.Namespace(t)
	for name, change := range map[string]func(*corev1.Pod){
		"of a Deployment whose name begins alike": func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "web-api-" + templateHash },
		"of a Deployment whose name ends alike":   func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "my-web-" + templateHash },
		"of a ReplicaSet of another hash":         func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "web-5d8f7c9b6e" },
		"of another kind of owner":                func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "StatefulSet" },
		"of nobody":                               func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		"without a hash":                          func(pod *corev1.Pod) { delete(pod.Labels, "pod-template-hash") },
		"without labels":                          func(pod *corev1.Pod) { pod.Labels = nil },
		"in another namespace":                    func(pod *corev1.Pod) { pod.Namespace = elsewhere },
		"with another container":                  func(pod *corev1.Pod) { pod.Spec.Containers[0].Name = "app" },
		"sized as a whole": func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: large, Limits: large}
		},
	} {
		pod := s.newcomer(sells("web", small, nil))
		change(pod)
		require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll), name)
		assertSame(t, small, pod.Spec.Containers[0].Resources.Requests)
	}
}

func TestAPodWhoseLimitIsBelowItsSizeIsBornAsItIs(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil), sells("log", small, nil)}, initially).open(t)
	s.sizing(t, size("web", large, nil), size("log", large, nil))
	s.born(t, s.newcomer(sells("web", small, nil)), large, nil)
	lower := amounts("200m", "512Mi") // Set by another plugin, or by a template that has just changed.
	pod := s.newcomer(sells("web", small, lower), sells("log", small, nil))
	require.NoError(t, env.Client.Create(t.Context(), pod, client.DryRunAll))
	assertSame(t, sells("web", small, lower).Resources, pod.Spec.Containers[0].Resources)
	assertSame(t, large, pod.Spec.Containers[1].Resources.Requests)
}

func TestAScalerThatIsOffSuspendedOrRenamedSizesNoNewPodAlsoWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially).open(t)
	s.sizing(t, size("web", large, nil))
	s.manager.stop()
	pod, other := s.newcomer(sells("web", small, nil)), s.newcomer(sells("web", small, nil))
	other.GenerateName, other.OwnerReferences[0].Name = "other-", "other-"+templateHash
	s.born(t, pod, large, nil)
	for _, change := range []func(*autoscalingv1beta1.VerticalScalerSpec){
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true },
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff },
		func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.DeploymentName = "other" },
	} {
		before := s.scaler.Spec.DeepCopy()
		s.asks(t, change)
		s.born(t, pod, small, nil)
		s.born(t, other, small, nil)
		s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { *spec = *before })
		s.born(t, pod, large, nil)
	}
	remove(t, s.scaler)
	s.born(t, pod, small, nil)
}
