package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

func TestClaimChangesWithTheTargetTheDeletionAndTheUID(t *testing.T) {
	t.Parallel()
	newScaler := func(change func(*autoscalingv1beta1.VerticalScaler)) *autoscalingv1beta1.VerticalScaler {
		scaler := testenv.NewScaler("one", "s", "web")
		scaler.UID = "1"
		change(scaler)
		return scaler
	}
	scaler := newScaler(func(*autoscalingv1beta1.VerticalScaler) {})
	terminating := newScaler(func(s *autoscalingv1beta1.VerticalScaler) { s.DeletionTimestamp = new(metav1.Now()) })
	suspended := newScaler(func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend, s.Generation = true, 2 })
	retargeted := newScaler(func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "other" })
	recreated := newScaler(func(s *autoscalingv1beta1.VerticalScaler) { s.UID = "2" })

	accepts := claimChanged()
	assert.True(t, accepts.Create(event.CreateEvent{Object: suspended}))
	assert.True(t, accepts.Delete(event.DeleteEvent{Object: suspended}))
	for name, test := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"no change":          {scaler, scaler.DeepCopy(), false},
		"another field":      {scaler, suspended, false},
		"another target":     {scaler, retargeted, true},
		"deletion":           {scaler, terminating, true},
		"change in deletion": {terminating, terminating.DeepCopy(), false},
		"re-creation":        {scaler, recreated, true},
		"another kind":       {cache.NewDeploymentMetadata(), cache.NewDeploymentMetadata(), false},
	} {
		assert.Equal(t, test.want, accepts.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), name)
	}
}

// runningPod returns a pod of a Deployment whose container "app" was OOM-killed and whose
// container "log" failed.
func runningPod() *corev1.Pod {
	pod := testenv.NewPod("one", "web", "aaaaa", "app", "log")
	pod.UID, pod.ResourceVersion = "u1", "7"
	pod.Spec.Containers[0].Resources.Limits = testenv.Amounts("1", "1Gi")
	terminated := func(reason string, second int64) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, FinishedAt: metav1.Unix(second, 0), ExitCode: 137, ContainerID: "c",
		}}
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, LastProbeTime: metav1.Unix(3, 0)}, {Type: corev1.PodInitialized}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", RestartCount: 2, State: terminated("OOMKilled", 5), LastTerminationState: terminated("OOMKilled", 4)},
			{
				Name: "log", LastTerminationState: terminated("Error", 4),
				Resources: &corev1.ResourceRequirements{Requests: testenv.Amounts("1", "1Gi")},
			},
		},
	}
	return pod
}

// addUnschedulable adds the condition that there is no node for the pod. A nominated node is
// one that other pods are being evicted from.
func addUnschedulable(nominatedNode string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.NominatedNodeName = nominatedNode
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		})
	}
}

func TestOnlyPodChangesThatMatterAreAccepted(t *testing.T) {
	t.Parallel()
	cached := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := runningPod()
		change(pod)
		trimmed, err := new(cache.Trimmer).Trim(pod)
		require.NoError(t, err)
		trimmedPod, isPod := trimmed.(*corev1.Pod)
		require.True(t, isPod)
		return trimmedPod
	}
	pod := cached(func(*corev1.Pod) {})
	unowned := cached(func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	accepts := deploymentPodChanged()
	assert.True(t, accepts.Create(event.CreateEvent{Object: pod}))
	assert.True(t, accepts.Delete(event.DeleteEvent{Object: pod}))
	assert.False(t, accepts.Create(event.CreateEvent{Object: unowned}))
	assert.False(t, accepts.Delete(event.DeleteEvent{Object: unowned}))
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"no change":       {func(*corev1.Pod) {}, false},
		"another version": {func(pod *corev1.Pod) { pod.ResourceVersion = "8" }, false},
		"a label":         {func(pod *corev1.Pod) { pod.Labels["a"] = "b" }, false},
		"ready":           {func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = "True" }, true},
		"probed":          {func(pod *corev1.Pod) { pod.Status.Conditions[0].LastProbeTime = metav1.Unix(4, 0) }, false},
		"initialized":     {func(pod *corev1.Pod) { pod.Status.Conditions[1].Status = "True" }, false},
		"another phase":   {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }, true},
		"ended":           {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, true},
		"deleted":         {func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Unix(2, 0)) }, true},
		"re-created":      {func(pod *corev1.Pod) { pod.UID = "u2" }, true},
		"resized":         {func(pod *corev1.Pod) { pod.Spec.Containers[1].Resources.Requests = testenv.Amounts("1", "1Gi") }, true},
		"another limit":   {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = testenv.Amounts("2", "2Gi") }, true},
		"resize complete": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[1].Resources.Requests = testenv.Amounts("2", "2Gi")
		}, true},
		"OOM-killed": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[1].LastTerminationState.Terminated.Reason = "OOMKilled"
		}, true},
		"OOM-killed again": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Unix(9, 0)
		}, true},
		"restarted after the kill": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].LastTerminationState = pod.Status.ContainerStatuses[0].State
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{}
		}, true},
		"unschedulable":               {addUnschedulable(""), true},
		"unschedulable but nominated": {addUnschedulable("node"), false},
		"scheduled": {func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		}, false},
		"on a node":                       {func(pod *corev1.Pod) { pod.Spec.NodeName = "node" }, false},
		"restarted after another failure": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[1].RestartCount++ }, true},
	} {
		assert.Equal(t, test.want, accepts.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: cached(test.change)}), name)
	}
}

func TestPodChangeThatDoesNotMatterCausesNoReconcile(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	pod := testenv.Create(t, env, testenv.NewPod(namespace, "web", "aaaaa", "app"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "web", "web"))
	var reconciles testenv.Reconciles
	startManager(t, namespace, reconciles.Count)
	waitForNotReady(t, scaler, "NoSamples")
	// The second reconcile is for the write of the status.
	require.Eventually(t, func() bool { return reconciles.Of(scaler) >= 2 }, testenv.Timeout, testenv.Poll)
	before := reconciles.Of(scaler)
	testenv.Edit(t, env, pod, func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} })
	pod.Status.PodIP, pod.Status.Message = "10.0.0.1", "healthy"
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	assert.Never(t, func() bool { return reconciles.Of(scaler) > before }, testenv.Quiet, testenv.Poll)
	testenv.OOMKill(t, env, pod, "app", 1)
	require.Eventually(t, func() bool { return reconciles.Of(scaler) > before }, testenv.Timeout, testenv.Poll)
}
