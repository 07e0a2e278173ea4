package recommendation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

const (
	mebi = 1 << 20
	// requestedMemory is the memory request of each container of testenv.NewPod.
	requestedMemory = 256 * mebi
)

// createTarget creates a Deployment with a pod, and a scaler of the same name.
func createTarget(
	t *testing.T, namespace, name string, containers ...string,
) (*autoscalingv1beta1.VerticalScaler, *corev1.Pod) {
	t.Helper()
	testenv.Create(t, env, testenv.NewDeployment(namespace, name))
	pod := testenv.Create(t, env, testenv.NewPod(namespace, name, "aaaaa", containers...))
	return testenv.Create(t, env, testenv.NewScaler(namespace, name, name)), pod
}

// afterRestart moves samples to a later time. A manager that has restarted ignores a sample of
// the same second as the newest restored one.
func afterRestart(samples []usage.Sample) []usage.Sample {
	for i := range samples {
		samples[i].Time = samples[i].Time.Add(2 * time.Second)
	}
	return samples
}

// historyOf returns the history of a container with its samples.
func historyOf(t *testing.T, container string, samples ...usage.Sample) *recommender.History {
	t.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for i := range samples {
		if samples[i].Container == container {
			addSample(t, history, samples[i])
		}
	}
	return history
}

func addSample(t *testing.T, history *recommender.History, sample usage.Sample) {
	t.Helper()
	require.NoError(t, history.AddCPU(sample.Time, sample.CPU))
	require.NoError(t, history.AddMemory(sample.Time, sample.Memory))
}

// addOOMKill adds the nth OOM kill of a container of testenv.NewPod to its history.
func addOOMKill(t *testing.T, history *recommender.History, n int) {
	t.Helper()
	require.NoError(t, history.AddOOMKill(testenv.OOMKillTime(n), requestedMemory))
}

// recommended returns the recommendation for a container of a pod with a number of containers
// if only the pod minimum caps it.
func recommended(container string, history *recommender.History, containers int) autoscalingv1beta1.ContainerRecommendation {
	return recommendedWith(container, history, recommender.DefaultPolicy(containers))
}

// recommendedWith returns the recommendation for a container with a policy.
func recommendedWith(
	container string, history *recommender.History, policy recommender.Policy,
) autoscalingv1beta1.ContainerRecommendation {
	return sizing.ContainerRecommendation(container, history.Recommend(policy))
}

// recommendedFor returns the recommendations for all containers of a pod after samples.
func recommendedFor(t *testing.T, samples []usage.Sample, containers ...string) []autoscalingv1beta1.ContainerRecommendation {
	t.Helper()
	var all []autoscalingv1beta1.ContainerRecommendation
	for _, container := range containers {
		all = append(all, recommended(container, historyOf(t, container, samples...), len(containers)))
	}
	return all
}

// waitForReady waits until a scaler's Ready has a status and a reason for its current generation.
func waitForReady(
	t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, status metav1.ConditionStatus, reason string,
) autoscalingv1beta1.VerticalScalerStatus {
	t.Helper()
	return testenv.WaitForReady(t, env, scaler, status, reason)
}

// waitForTargets waits until a scaler's status has the targets of recommendations. Bounds, and
// number and span of the samples, can be older: a small change of them is not published.
func waitForTargets(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, want ...autoscalingv1beta1.ContainerRecommendation) {
	t.Helper()
	targets := func(all []autoscalingv1beta1.ContainerRecommendation) []autoscalingv1beta1.ContainerRecommendation {
		all = slices.Clone(all)
		for i := range all {
			all[i].LowerBound, all[i].UpperBound, all[i].Samples, all[i].Span = nil, nil, 0, metav1.Duration{}
		}
		return all
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertSameJSON(c, targets(want), targets(testenv.Refresh(c, env, scaler).Status.Recommendations))
	}, testenv.Timeout, testenv.Poll)
}

// assertRecommendationsStay asserts that a scaler's recommendations do not change for a while.
func assertRecommendationsStay(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	before := testenv.Refresh(t, env, scaler).Status.Recommendations
	require.NotEmpty(t, before)
	observed := scaler.DeepCopy() // The last check can end after assert.Never returns.
	assert.Never(t, func() bool {
		return !equality.Semantic.DeepEqual(before, testenv.Refresh(t, env, observed).Status.Recommendations)
	}, testenv.Quiet, testenv.Poll)
}

// waitForReconcile waits until a manager that has started has reconciled a scaler.
func waitForReconcile(t *testing.T, reconciles *testenv.Reconciles, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	require.Eventually(t, func() bool { return reconciles.Of(scaler) > 0 }, testenv.Timeout, testenv.Poll)
}
