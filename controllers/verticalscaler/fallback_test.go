package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// overQuota is what the Deployment controller tells of pods that a ResourceQuota refuses.
const overQuota = `pods "web-6d4b75cb6d-x7k2p" is forbidden: exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1`

// refuses writes into the status of the shop's Deployment that new pods are refused.
func (s *shop) refuses(t *testing.T, message string) {
	t.Helper()
	d := deployment(t, s.namespace, "web")
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
	})
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
}

// pends writes the status of a pod for which the scheduler has found no node.
func pends(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	refresh(t, pod)
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, nil
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient cpu.",
	}}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

func TestPodsThatAQuotaRefusesAreBornAsTheirTemplateSaysUntilItIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially).open(t)
	s.sizing(t, size("web", large, nil))
	before := time.Now().Truncate(time.Second)
	s.refuses(t, overQuota)

	message := s.applied(t, isFalse, "QuotaExceeded")
	assert.Contains(t, message, "raise it or lower maxAllowed")
	assert.Contains(t, message, "(exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1)")
	assert.NotContains(t, message, "x7k2p", "the message is the same for each pod")
	fallback := s.scaler.Status.Fallback
	require.NotNil(t, fallback)
	assert.Contains(t, message, "Until "+fallback.Until.UTC().Format(time.RFC3339))
	assert.WithinRange(t, fallback.Since.Time, before, time.Now())
	assert.Equal(t, time.Hour, fallback.Until.Sub(fallback.Since.Time))
	s.sizing(t)
	s.born(t, s.newcomer(sells("web", small, nil)), small, nil)
	assert.Equal(t, 1, told(t, s.scaler)["QuotaExceeded"])

	// Once the pods are there, the quota says nothing more.
	d := deployment(t, s.namespace, "web")
	d.Status.Conditions = nil
	require.NoError(t, env.Client.Status().Update(t.Context(), d))
	s.source.settle(t)
	s.applied(t, isFalse, "QuotaExceeded")
	assert.Equal(t, fallback, s.scaler.Status.Fallback)
	s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
		spec.ContainerPolicies = always(amounts("200m", "512Mi"))
	})
	s.sizing(t, size("web", amounts("200m", "512Mi"), nil))
	s.applied(t, isTrue, "SizedAtCreation")
	assert.Nil(t, s.scaler.Status.Fallback)
}

func TestNewPodsGetWhatIsNoMoreThanTheirTemplateHasInAFallbackTooAndRunningOnesAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2, []corev1.Container{sells("web", amounts("1", "256Mi"), amounts("2", "512Mi"))})
	s.refuses(t, overQuota)
	s.open(t)
	s.applied(t, isFalse, "QuotaExceeded")
	s.asksNoMoreThan(t, 0)
	cpu := func(cpu string) corev1.ResourceList {
		list := amounts(cpu, "0")
		delete(list, corev1.ResourceMemory)
		return list
	}
	s.sizing(t, size("web", cpu("500m"), cpu("1")))
}

func TestRunningPodsGiveBackWhatAQuotaRefusesNewPodsEvenAtTheirTemplatesSize(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.pods[0].Spec.Containers = []corev1.Container{sells("web", large, nil)}
	})
	s.refuses(t, overQuota)
	since := metav1.NewTime(time.Now().Add(3*time.Second - quotaPatience)).Rfc3339Copy()
	require.NoError(t, applyStatus(t.Context(), env.Client, "upright-verticalscaler", s.scaler, autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: s.scaler.Generation, DeploymentName: "web",
		Fallback: &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: since, Until: metav1.NewTime(since.Add(time.Hour))},
	}))
	s.open(t)
	has(t, s.pods[0], 0, small, nil)
	assert.False(t, time.Now().Before(since.Add(quotaPatience)))
	s.applied(t, isFalse, "QuotaExceeded")
	s.asksNoMoreThan(t, 1)
}

func TestRunningPodsGiveNothingBackToAQuotaThatCountsThem(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, func(s *shop) {
		s.pods[0].Spec.Containers = []corev1.Container{sells("web", large, nil)}
	})
	s.refuses(t, `pods "web-x" is forbidden: exceeded quota: cpu, requested: pods=1, used: pods=1, limited: pods=1`)
	long := metav1.NewTime(time.Now().Add(-10 * quotaPatience)).Rfc3339Copy()
	require.NoError(t, applyStatus(t.Context(), env.Client, "upright-verticalscaler", s.scaler, autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: s.scaler.Generation, DeploymentName: "web",
		Fallback: &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Since: long, Until: metav1.NewTime(long.Add(time.Hour))},
	}))
	s.open(t)
	s.applied(t, isFalse, "QuotaExceeded")
	s.asksNoMoreThan(t, 0)
}

func TestAQuotaRefusesPodsForTheirSizeWhereItIsAboutCPUOrMemory(t *testing.T) {
	t.Parallel()
	for requested, want := range map[string]bool{
		"requests.cpu=500m": true, "limits.memory=1Gi,pods=1": true, "count/pods=1,memory=1Gi": true, "cpu=1": true,
		"pods=1": false, "requests.nvidia.com/gpu=1": false, "requests.ephemeral-storage=1Gi": false,
	} {
		assert.Equal(t, want, isOfSize("exceeded quota: cpu, requested: "+requested+", used: cpu=1, limited: cpu=1"), requested)
	}
	assert.False(t, isOfSize(""))
}

func TestPodsThatAreRefusedForAnotherReasonDoNotFallBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message string
		has     corev1.ResourceList
	}{
		"which is no quota":                {`pods "web-x" is forbidden: error looking up service account`, small},
		"for what the template itself has": {overQuota, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 1, []corev1.Container{sells("web", test.has, nil)}, initially)
			s.refuses(t, test.message)
			s.open(t)
			s.applied(t, isTrue, "SizedAtCreation")
			s.sizing(t, size("web", large, nil))
			assert.Nil(t, s.scaler.Status.Fallback)
		})
	}
}

func TestAFallbackOutlivesTheManagerAndEndsWithItsTime(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially)
	until := metav1.NewTime(time.Now().Add(5 * time.Second)).Rfc3339Copy()
	// What another wrote would stay, since a field belongs to who applied it.
	require.NoError(t, applyStatus(t.Context(), env.Client, "upright-verticalscaler", s.scaler, autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: s.scaler.Generation, DeploymentName: "web",
		Fallback: &autoscalingv1beta1.Fallback{Reason: "Unschedulable", Since: metav1.NewTime(until.Add(-time.Hour)), Until: until},
	}))
	s.open(t)
	s.applied(t, isFalse, "Unschedulable")
	assert.Equal(t, until.Unix(), s.scaler.Status.Fallback.Until.Unix())
	s.sizing(t, size("web", large, nil))
	assert.False(t, time.Now().Before(until.Time))
	s.applied(t, isTrue, "SizedAtCreation")
	s.refuses(t, overQuota)
	s.applied(t, isFalse, "QuotaExceeded")
	fallback := s.scaler.Status.Fallback
	assert.Equal(t, 2*time.Hour, fallback.Until.Sub(fallback.Since.Time), "the next one is longer")
}

func TestAFallbackIsTwiceAsLongAsTheOneBeforeUpToADayAndForgottenAfterAsLongAgain(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	scaler := newScaler("one", "web", "web")
	scaler.Spec.ContainerPolicies = always(large)
	target := foreign("one", "web")
	target.Spec.Template.Spec.Containers = []corev1.Container{sells("web", small, nil)}
	stuck := target.DeepCopy()
	stuck.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: overQuota,
	}}
	at := func(now time.Time, d *appsv1.Deployment) *autoscalingv1beta1.Fallback {
		_, fallback := fallBack(scaler, []autoscalingv1beta1.ContainerSizing{size("web", large, nil)}, findings{deployment: d}, now)
		return fallback
	}
	for _, hours := range []int{1, 2, 4, 8, 16, 24, 24} {
		fallback := at(begin, stuck)
		require.NotNil(t, fallback)
		assert.InDelta(t, hours, fallback.Until.Sub(fallback.Since.Time).Hours(), 0)
		scaler.Status.Fallback = fallback
		begin = fallback.Until.Time
		assert.False(t, isInForce(fallback, begin))
		assert.Equal(t, fallback, at(begin, target), "kept while it is not long over")
	}
	assert.Nil(t, at(begin.Add(24*time.Hour), target))
	assert.InDelta(t, 1, at(begin.Add(24*time.Hour), stuck).Until.Sub(begin.Add(24*time.Hour)).Hours(), 0)
}

func TestAPinnedSizeStaysThoughAQuotaRefusesIt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1, []corev1.Container{sells("web", small, nil)}, initially).open(t)
	s.sizing(t, size("web", large, nil))
	edit(t, s.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) {
		scaler.Annotations = map[string]string{autoscalingv1beta1.AnnotationPin: "true"}
	})
	s.refuses(t, overQuota)
	assert.Contains(t, s.applied(t, isFalse, "QuotaExceeded"), "or remove the annotation "+autoscalingv1beta1.AnnotationPin)
	s.sizing(t, size("web", large, nil))
	assert.Nil(t, s.scaler.Status.Fallback)
}

func TestAPodForWhichThereIsNoNodeGetsTheSizeOfItsTemplateInPlace(t *testing.T) {
	t.Parallel()
	limits := amounts("200m", "512Mi")
	s := newShop(t, 3, []corev1.Container{sells("web", small, limits)}, func(s *shop) {
		for _, pod := range s.pods[:2] {
			pod.Spec.Containers = []corev1.Container{sells("web", large, amounts("1", "2Gi"))}
		}
	})
	waiting, running := s.pods[0], s.pods[1]
	pends(t, waiting)
	s.open(t)
	message := s.applied(t, isFalse, "Unschedulable")
	assert.Contains(t, message, "(0/3 nodes are available: 3 Insufficient cpu.)")
	assert.Contains(t, message, "add nodes or lower maxAllowed")
	has(t, waiting, 0, small, limits)
	s.sizing(t)
	s.asksNoMoreThan(t, 1)
	has(t, running, 0, large, amounts("1", "2Gi"))
	s.applied(t, isFalse, "Unschedulable")
}

func TestAPodThatFindsNoNodeThoughItIsNoLargerThanItsTemplateIsNoReasonToFallBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"since it has the template's size": func(pod *corev1.Pod) { pod.Spec.Containers = []corev1.Container{sells("web", small, nil)} },
		"since an older template was larger": func(pod *corev1.Pod) {
			pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d8f7c9b6e"
			pod.OwnerReferences[0].Name = "web-5d8f7c9b6e"
			pod.Name = "a" + pod.Name // The newest is the last by name of one second.
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 2, []corev1.Container{sells("web", small, nil)}, initially, func(s *shop) {
				s.pods[0].Spec.Containers = []corev1.Container{sells("web", large, nil)}
				change(s.pods[0])
			})
			pends(t, s.pods[0])
			s.open(t)
			s.applied(t, isTrue, "SizedAtCreation")
			assert.Nil(t, s.scaler.Status.Fallback)
			s.asksNoMoreThan(t, 0)
		})
	}
}

// Where nodes are added for pods that wait, one would not be if the pod no longer waited.
func TestAPodWaitsForANodeThatIsLargeEnoughForAWhile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	target := foreign("one", "web")
	target.Spec.Template.Spec.Containers = []corev1.Container{sells("web", small, nil)}
	for name, test := range map[string]struct {
		node   corev1.ResourceList
		waited time.Duration
		left   time.Duration
	}{
		"on the largest node there is room":            {node: huge, waited: time.Minute, left: 2 * time.Minute},
		"it fills the largest node":                    {node: large, left: 3 * time.Minute},
		"it has waited for long enough":                {node: huge, waited: 3 * time.Minute},
		"no node is large enough":                      {node: small},
		"no node is known to have any of its resource": {},
	} {
		pod := newPod("one", "web", "aaaaa")
		pod.Spec.Containers = []corev1.Container{sells("web", large, nil)}
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "no room", LastTransitionTime: metav1.NewTime(now.Add(-test.waited)),
		}}
		found := findings{deployment: target, advice: advice{pods: []corev1.Pod{*pod}, largestNode: test.node}}
		assert.Equal(t, test.left, patience(found, now), name)
		reason, _ := obstacle(found, now)
		assert.Equal(t, test.left == 0, reason == "Unschedulable", name)
	}
}

// A fallback is of one Deployment and of one spec.
func TestAFallbackEndsWhereNothingIsSized(t *testing.T) {
	t.Parallel()
	fallback := &autoscalingv1beta1.Fallback{Reason: "QuotaExceeded", Until: metav1.NewTime(time.Now().Add(time.Hour))}
	for name, change := range map[string]func(*autoscalingv1beta1.VerticalScaler){
		"Off":                func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.UpdateMode = "Off" },
		"suspended":          func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.Suspend = true },
		"another Deployment": func(scaler *autoscalingv1beta1.VerticalScaler) { scaler.Spec.DeploymentName = "other" },
	} {
		scaler := newScaler("one", "web", "web")
		scaler.Status = autoscalingv1beta1.VerticalScalerStatus{
			DeploymentName: "web", Fallback: fallback,
			Recommendations: []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "web", Target: large}},
		}
		found := findings{advice: advice{recommendations: scaler.Status.Recommendations}}
		assert.Equal(t, fallback, scalerStatus(scaler, found, time.Now()).Fallback, "while the target is away")
		change(scaler)
		assert.Nil(t, scalerStatus(scaler, found, time.Now()).Fallback, name)
	}
}
