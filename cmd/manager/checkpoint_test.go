package main

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// createOOMKilledPod creates a VerticalScaler for Deployment web and an OOM-killed pod of web. An
// OOM kill gives a recommendation without any usage samples.
func createOOMKilledPod(t *testing.T, namespace string) *autoscalingv1beta1.VerticalScaler {
	t.Helper()
	scaler := &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: "web"},
	}
	require.NoError(t, env.Client.Create(t.Context(), scaler))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web-6d4cf56db6-x2k9p",
			Labels: map[string]string{"pod-template-hash": "6d4cf56db6"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(
				&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-6d4cf56db6", UID: types.UID("set")}},
				appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "web",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("500Mi")}},
		}}},
	}
	require.NoError(t, env.Client.Create(t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", RestartCount: 1,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.Now(),
		}},
	}}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
	return scaler
}

// waitForRecommendation waits until memory is recommended and returns the target.
func waitForRecommendation(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) string {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), scaler))
		assert.NotEmpty(c, scaler.Status.PodTarget)
	}, timeout, pollInterval)
	return scaler.Status.PodTarget.Memory().String()
}

func checkpoints(t *testing.T, namespace string) []autoscalingv1beta1.VerticalScalerCheckpoint {
	t.Helper()
	var list autoscalingv1beta1.VerticalScalerCheckpointList
	require.NoError(t, env.Client.List(context.Background(), &list, client.InNamespace(namespace)))
	return list.Items
}

func TestManagerSavesHistoryWhenStopped(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler := createOOMKilledPod(t, namespace)
	p := start(t, "--namespaces="+namespace)
	waitForRecommendation(t, scaler)
	assert.Empty(t, checkpoints(t, namespace), "no checkpoint interval has passed")
	p.stop(t)

	saved := checkpoints(t, namespace)
	require.Len(t, saved, 1)
	assert.Equal(t, scaler.Name, saved[0].Name)
	assert.Equal(t, scaler.UID, saved[0].OwnerReferences[0].UID)
	assert.Len(t, saved[0].Data.OOMKills, 1)
}

func TestManagerWritesNoHistoryAfterItHasLostItsLease(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler := createOOMKilledPod(t, namespace)
	p := start(t, "--namespaces="+namespace, "--leader-elect", "--leader-election-namespace="+namespace)
	waitForRecommendation(t, scaler)

	lease := &coordinationv1.Lease{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: leaderElectionID}, lease))
	patch := client.MergeFrom(lease.DeepCopy())
	lease.Spec.HolderIdentity = new("other-manager")
	lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(time.Hour)))
	require.NoError(t, env.Client.Patch(t.Context(), lease, patch))

	select {
	case <-p.ended:
	case <-time.After(2 * timeout):
		require.Fail(t, "the manager does not stop without its Lease")
	}
	exit, isExit := errors.AsType[*exec.ExitError](p.err)
	require.True(t, isExit, "%v", p.err)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Contains(t, p.log.String(), "upright: run the manager: leader election lost")
	assert.Empty(t, checkpoints(t, namespace), "the other manager may have written a newer one")
}

func TestOOMKillCountsOnceAfterManagerIsKilled(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler := createOOMKilledPod(t, namespace)
	p := start(t, "--namespaces="+namespace)
	first := waitForRecommendation(t, scaler)
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	require.Empty(t, checkpoints(t, namespace))

	p = start(t, "--namespaces="+namespace, "--checkpoint-interval=1s")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, checkpoints(t, namespace), 1)
	}, timeout, pollInterval)
	p.stop(t)
	p = start(t, "--namespaces="+namespace, "--checkpoint-interval=1s")
	// assert.Never may return while its last check still runs, so the check has its own copy.
	current := scaler.DeepCopy()
	assert.Never(t, func() bool {
		err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(current), current)
		return err != nil || current.Status.PodTarget.Memory().String() != first
	}, quietPeriod, pollInterval)
	p.stop(t)
	assert.Len(t, checkpoints(t, namespace)[0].Data.OOMKills, 1)
}
