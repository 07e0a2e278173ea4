package verticalscaler

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// createdPod returns a pod of "web" that was created some seconds after the start of a test.
func createdPod(start time.Time, seconds int, resources corev1.ResourceRequirements) corev1.Pod {
	pod := testenv.NewPod("default", "web", "")
	pod.UID = types.UID(start.Add(time.Duration(seconds) * time.Second).String())
	pod.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
	pod.Spec.Containers = []corev1.Container{{Name: "web", Resources: resources}}
	return *pod
}

// observation is a scope with pods and an entry in the table, some seconds after the start.
func observation(start time.Time, seconds int, inTable autoscalingv1beta1.PodSize, pods ...corev1.Pod) *scope {
	s := newScope(testenv.NewScaler("default", "web", "web"), start.Add(time.Duration(seconds)*time.Second))
	s.newPods.inTable, s.pods = inTable, pods
	return s
}

var (
	largeInTable = autoscalingv1beta1.PodSize{"web": {Requests: large}}
	withSize     = corev1.ResourceRequirements{Requests: large}
	withoutSize  = corev1.ResourceRequirements{Requests: small}
)

func TestPodCreatedWithoutItsSizeIsNoticed(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"with its size":             {createdPod(start, 10, withSize), false},
		"without its size":          {createdPod(start, 10, withoutSize), true},
		"before the size counts":    {createdPod(start, 2, withoutSize), false},
		"limit is below the size":   {createdPod(start, 10, corev1.ResourceRequirements{Requests: small, Limits: testenv.Amounts("200m", "300Mi")}), false},
		"limit is equal to size":    {createdPod(start, 10, corev1.ResourceRequirements{Requests: small, Limits: large}), true},
		"only one resource differs": {createdPod(start, 10, corev1.ResourceRequirements{Requests: testenv.Amounts("500m", "256Mi")}), true},
	} {
		c := newCreations()
		assert.False(t, c.observe(observation(start, 0, largeInTable)), name)
		assert.Equal(t, test.want, c.observe(observation(start, 11, largeInTable, test.pod)), name)
	}
	withPodResources := createdPod(start, 10, withoutSize)
	withPodResources.Spec.Resources = &corev1.ResourceRequirements{}
	c := newCreations()
	c.observe(observation(start, 0, largeInTable))
	assert.False(t, c.observe(observation(start, 11, largeInTable, withPodResources)), "pod-level resources")
}

func TestEachPodIsComparedOnceBeforeItsFirstResize(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	c := newCreations()
	c.observe(observation(start, 0, largeInTable))
	pod := createdPod(start, 10, withoutSize)
	require.True(t, c.observe(observation(start, 11, largeInTable, pod)))
	pod.Spec.Containers[0].Resources = withSize
	assert.True(t, c.observe(observation(start, 12, largeInTable, pod)), "a resize does not change how the pod was created")
	next := createdPod(start, 20, withSize)
	assert.False(t, c.observe(observation(start, 21, largeInTable, pod, next)), "the newest pod decides")
}

func TestPodsOfAnEarlierSizeAreNotCompared(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	huger := autoscalingv1beta1.PodSize{"web": {Requests: huge}}
	c := newCreations()
	existing := createdPod(start, -10, withoutSize)
	assert.False(t, c.observe(observation(start, 0, largeInTable, existing)), "pods of before the start")
	assert.False(t, c.observe(observation(start, 10, huger, existing)))
	assert.False(t, c.observe(observation(start, 12, huger, existing, createdPod(start, 11, withSize))), "created with the previous size")
	assert.True(t, c.observe(observation(start, 22, huger, createdPod(start, 20, withSize))))
	assert.False(t, c.observe(observation(start, 30, nil)), "without a size there is nothing to take")
}

func TestSizeNotTakenSurvivesARestart(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	s := observation(start, 0, largeInTable, createdPod(start, -10, withoutSize))
	s.scaler.Status.Conditions = []metav1.Condition{{
		Type: autoscalingv1beta1.ConditionApplied, Status: metav1.ConditionFalse, Reason: autoscalingv1beta1.ReasonSizeNotTaken,
	}}
	c := newCreations()
	assert.True(t, c.observe(s))
	assert.False(t, c.observe(observation(start, 11, largeInTable, createdPod(start, 10, withSize))))
}

func TestEditedPolicyGetsAnotherChance(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	c := newCreations()
	c.observe(observation(start, 0, largeInTable))
	pod := createdPod(start, 10, withoutSize)
	require.True(t, c.observe(observation(start, 11, largeInTable, pod)))
	edited := observation(start, 12, largeInTable, pod)
	edited.newPods.policyVersion = 1
	assert.False(t, c.observe(edited))
	again := observation(start, 30, largeInTable, pod, createdPod(start, 20, withoutSize))
	again.newPods.policyVersion = 1
	assert.True(t, c.observe(again), "the edit did not help")
}

// excludeFromPolicy makes the binding of the admission policy exclude a namespace.
func excludeFromPolicy(t *testing.T, environment *testenv.Environment, namespace string) {
	t.Helper()
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admissionPolicy}}
	testenv.Edit(t, environment, binding, func(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
		binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace},
			}},
		}}
	})
}

// TestPolicyWithoutEffectStopsRollouts installs the policy but excludes the namespace of the test,
// as a namespaceSelector does. It takes an API server of its own.
func TestPolicyWithoutEffectStopsRollouts(t *testing.T) {
	t.Parallel()
	environment := testenv.Start(t, nil)
	require.NoError(t, environment.InstallAdmission())
	w := newUnresizableWorkload(t, environment, 2)
	excludeFromPolicy(t, environment, w.namespace)
	w.start(t)
	d := w.waitForRollout(t, "")
	w.waitForTable(t)
	// The ReplicaSet controller replaces the pods, and the policy does not size the new ones.
	var created *corev1.Pod
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		created = w.newPod(newContainer("web", nil, nil))
		assert.NoError(c, environment.Client.Create(t.Context(), created))
		testenv.AssertCondition(c, testenv.Refresh(c, environment, w.scaler).Status.Conditions, "Applied", isFalse, "SizeNotTaken")
	}, testenv.Timeout, time.Second)
	w.waitForEvent(t, "SizeNotTaken")
	testenv.RunPod(t, environment, created)
	for _, pod := range w.pods {
		testenv.Delete(t, environment, pod)
	}
	testenv.MarkAvailable(t, environment, d)
	before := restartedAt(testenv.Refresh(t, environment, d))
	assert.Never(t, func() bool { return restartedAt(testenv.Refresh(t, environment, d)) != before }, 3*testenv.Quiet, testenv.Poll)

	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admissionPolicy}}
	testenv.Edit(t, environment, binding, func(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
		binding.Spec.MatchResources = nil
	})
	w.waitForRollout(t, before)
}

func TestAppliedReportsAFullTable(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), time.Unix(1_000_000, 0))
	s.target = &metav1.PartialObjectMetadata{}
	s.status.Sizing = []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}
	s.newPods.isOmitted = true
	condition := s.applied()
	testenv.AssertCondition(t, []metav1.Condition{condition}, "Applied", isFalse, "SizeTableFull")
	assert.False(t, s.canSizeNewPods())
}

func TestRolloutWaitsUntilItsSizeIsInTheTable(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), time.Unix(1_000_000, 0))
	s.status.Sizing = []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}
	assert.False(t, s.isInTable())
	s.newPods.inTable = autoscalingv1beta1.PodSize{"web": {Requests: huge}}
	assert.False(t, s.isInTable())
	s.newPods.inTable = largeInTable
	assert.True(t, s.isInTable())
}

// TestUnwritableTableIsReported shows that running pods are still resized, and that no rollout
// counts on a size that new pods do not get.
func TestUnwritableTableIsReported(t *testing.T) {
	t.Parallel()
	var f fault
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record, f.requests(http.MethodPost, "/sizetables"))
	w.waitForResources(t, w.pods[0], 0, large, nil)
	testenv.RunPod(t, env, w.pods[0])
	w.waitForApplied(t, isFalse, "SizeTableFailed")
	w.waitForEvent(t, "SizeTableFailed")
	f.isOff.Store(true)
	w.waitForApplied(t, isTrue, "Sized")
	w.waitForTable(t)
}

func TestNoRolloutStartsWhileTheTableIsUnwritable(t *testing.T) {
	t.Parallel()
	var f fault
	w := newUnresizableWorkload(t, env, 2)
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record, f.requests(http.MethodPost, "/sizetables"))
	w.waitForApplied(t, isFalse, "SizeTableFailed")
	w.assertNoRollout(t)
	f.isOff.Store(true)
	w.waitForRollout(t, "")
}

func TestInitialModeIsAppliedWhenTheTableHasASize(t *testing.T) {
	t.Parallel()
	s := newScope(testenv.NewScaler("default", "web", "web"), time.Unix(1_000_000, 0))
	s.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	s.target = &metav1.PartialObjectMetadata{}
	s.status.Sizing = []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)}
	testenv.AssertCondition(t, []metav1.Condition{s.applied()}, "Applied", isFalse, "SizeTablePending")
	s.newPods.inTable = autoscalingv1beta1.PodSize{"web": {Requests: huge}} // A previous size.
	testenv.AssertCondition(t, []metav1.Condition{s.applied()}, "Applied", isTrue, "SizedAtCreation")
	s.newPods.inTable, s.scaler.Spec.UpdateMode = nil, autoscalingv1beta1.UpdateModeInPlace
	testenv.AssertCondition(t, []metav1.Condition{s.applied()}, "Applied", isTrue, "Sized")
}
