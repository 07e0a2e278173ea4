package controllers

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// inPlace has a shop's scaler resize running pods, and never roll out.
func inPlace(s *shop) { s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace }

// asksNoMoreThan asserts that for a while no pod is resized beyond so many requests.
func (s *shop) asksNoMoreThan(t *testing.T, requests int) {
	t.Helper()
	s.source.settle(t)
	assert.Never(t, func() bool { return s.resizes() > requests }, aWhile, often)
	assert.Equal(t, requests, s.resizes())
}

func TestPodsThatCannotBeResizedAreLeftAloneAndAppliedSaysWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason     string
		containers []corev1.Container
		pod        func(*corev1.Pod)
		status     func(*corev1.Pod)
	}{
		"best effort": {reason: "QoSClassFixed", containers: []corev1.Container{sells("web", nil, nil)}},
		"a node that is too old": {
			reason: "ResizeUnsupported", containers: []corev1.Container{sells("web", small, nil)},
			status: func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil },
		},
		"sized as a whole": {
			reason: "PodLevelResources", containers: []corev1.Container{sells("web", small, nil)},
			pod: func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{Requests: huge, Limits: huge} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 2, test.containers, inPlace, func(s *shop) {
				for _, pod := range s.pods {
					if test.pod != nil {
						test.pod(pod)
					}
				}
			})
			if test.status != nil {
				for _, pod := range s.pods {
					test.status(pod)
					require.NoError(t, env.Client.Status().Update(t.Context(), pod))
				}
			}
			s.open(t)
			assert.Contains(t, s.applied(t, isFalse, test.reason), "2 of 2 pods")
			s.asksNoMoreThan(t, 0)
			assert.Equal(t, 1, told(t, s.scaler)[test.reason])
			assert.InDelta(t, 1, value(t, s.manager, "upright_refusals_total", test.reason), 0)
		})
	}
}

func TestGuaranteedPodsStayGuaranteed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, small)}, inPlace).open(t)
	has(t, s.pods[0], 0, large, large)
	assert.Equal(t, corev1.PodQOSGuaranteed, s.pods[0].Status.QOSClass)
}

func TestWhatTheKubeletSaysOfAResizeIsToldAndNotAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, inPlace).open(t)
	pod := s.pods[0]
	has(t, pod, 0, large, nil)
	for _, test := range []struct {
		reason    string
		condition corev1.PodCondition
	}{
		{"ResizeDeferred", corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred, Message: "the node is full"}},
		{"ResizeInfeasible", corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, Message: "the node is small"}},
		{"ResizeFailed", corev1.PodCondition{Type: corev1.PodResizeInProgress, Reason: corev1.PodReasonError, Message: "it uses more"}},
		{"Resizing", corev1.PodCondition{Type: corev1.PodResizeInProgress, Message: "the runtime is at it"}},
	} {
		test.condition.Status = corev1.ConditionTrue
		runs(t, pod, test.condition)
		message := s.applied(t, isFalse, test.reason)
		assert.Contains(t, message, "1 of 1 pods")
		assert.Contains(t, message, test.condition.Message)
	}
	s.asksNoMoreThan(t, 1)
	runs(t, pod)
	s.applied(t, isTrue, "Sized")
	s.asksNoMoreThan(t, 1)
}

func TestAResizeThatTheAPIServerRefusesIsToldAndTriedAgainWhenAnotherIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2, []corev1.Container{sells("web", small, nil)}, inPlace)
	quota := create(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.cpu": large["cpu"]}},
	})
	quota.Status = corev1.ResourceQuotaStatus{
		Hard: quota.Spec.Hard, Used: corev1.ResourceList{"requests.cpu": small["cpu"]},
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), quota))
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.ContainerPolicies = always(huge) })
	s.open(t)
	message := s.applied(t, isFalse, "ResizeRefused")
	assert.Contains(t, message, "2 of 2 pods cannot be resized")
	assert.Contains(t, message, "exceeded quota")
	s.asksNoMoreThan(t, 2)
	assert.InDelta(t, 2, value(t, s.manager, "upright_pod_resizes_total", "refused"), 0)
	assert.Zero(t, told(t, s.scaler)["Resized"])

	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.ContainerPolicies = always(amounts("250m", "512Mi"))
	})
	has(t, s.pods[0], 0, amounts("250m", "512Mi"), nil)
	has(t, s.pods[1], 0, amounts("250m", "512Mi"), nil)
	s.asksNoMoreThan(t, 4)
}

func TestAResizeThatTheNodeCouldNeverDoIsRefusedForGood(t *testing.T) {
	t.Parallel()
	for cause, want := range map[metav1.CauseType]string{
		"NodeCapacity": "ResizeInfeasible", "UnsupportedPlatform": "ResizeUnsupported", "": "ResizeRefused",
	} {
		refused := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("because"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause}}
		reason, pause := reasonOf(refused)
		assert.Equal(t, want, reason)
		assert.Equal(t, want != "ResizeRefused", pause > refusalPause)
	}
}
