package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// The test stops and kills managers, so it is not parallel. The subtests follow one another: all
// managers recommend for the same Deployment, whose container was OOM killed once.
func TestHistoryAndOOMKillsSurviveTheManager(t *testing.T) {
	const request = 400
	restartManagerWith(t) // A new manager writes no checkpoint before it stops.
	namespace := newNamespace(t)
	scaler, pod := startScaledPod(t, namespace, request)
	counted := countedOOMKills(t)
	annotate(t, pod, annotationOOMKill, "app/1")
	waitForTargetMemory := func(memory string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			require.Equal(c, memory, memoryOf(scaler.Status.PodTarget))
		})
	}
	waitForTargetMemory(memoryOf(oomKilledTarget(t, request)))
	waitForRestart(t, pod, "app", 1) // The kill moves from the container's state to its last state.
	waitForAllReconciled(t)
	assert.InDelta(t, 1, countedOOMKills(t)-counted, 0)

	t.Run("a leader stops and another manager takes over", func(t *testing.T) {
		leader := env.manager
		other, err := env.newManager(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Stop(context.WithoutCancel(t.Context())) })
		waitForUsageRead(t, leader, namespace, scaler.CreationTimestamp.Time)

		require.NoError(t, leader.Stop(t.Context()))

		first := savedHistory(t, scaler)
		assert.Positive(t, sampleCount(first))
		waitForUsageRead(t, other, namespace, first.LastSample())
		require.NoError(t, other.Stop(t.Context()))
		last := savedHistory(t, scaler)
		assert.Greater(t, sampleCount(last), sampleCount(first))
		assert.Equal(t, first.FirstSample(), last.FirstSample())
		assert.Greater(t, last.LastSample(), first.LastSample())
		assert.Equal(t, memoryOf(oomKilledTarget(t, request)), memoryOf(refresh(t, scaler).Status.PodTarget))
		assert.Len(t, getCheckpoint(t, scaler).Data.OOMKills, 1)
	})

	t.Run("a manager is killed", func(t *testing.T) {
		// Without a Lease, because that of a killed manager stays valid for a while.
		args := []string{"--checkpoint-interval=1s", "--leader-elect=false"}
		require.NoError(t, env.startManager(t.Context(), args...))
		waitForAllReconciled(t)
		before := savedHistory(t, scaler)
		env.manager.Kill()

		require.NoError(t, env.startManager(t.Context(), args...))

		waitForTargetMemory(memoryOf(oomKilledTarget(t, request)))
		waitForAllReconciled(t)
		assert.Zero(t, countedOOMKills(t), "the checkpoint has the kill, which the pod still shows")
		// The published recommendation stays until there is a history. Another margin shows that there is.
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{MarginPercent: ptr.To[int32](100)}
		})
		policy := recommender.DefaultPolicy(1)
		policy.Margin = 1
		want := amountsOf(before.Recommend(policy))
		waitForTargetMemory(memoryOf(want))
		eventually(t, func(c *assert.CollectT) {
			after := savedHistory(c, scaler)
			require.GreaterOrEqual(c, sampleCount(after), sampleCount(before))
			require.Equal(c, before.FirstSample(), after.FirstSample())
		})
		assert.Len(t, getCheckpoint(t, scaler).Data.OOMKills, 1)
	})

	t.Run("only the checkpoint is deleted with the scaler", func(t *testing.T) {
		checkpoint := getCheckpoint(t, scaler)
		before := workloadVersions(t, namespace)
		require.Len(t, before, 3, "a Deployment, a ReplicaSet and a pod")

		remove(t, scaler)

		waitForGone(t, scaler)
		waitForGone(t, checkpoint)
		assert.Equal(t, before, workloadVersions(t, namespace))
	})
}

// restartManagerWith restarts the manager with more arguments until the test ends.
func restartManagerWith(t *testing.T, args ...string) {
	t.Helper()
	require.NoError(t, env.manager.Stop(t.Context()))
	require.NoError(t, env.startManager(t.Context(), args...))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = env.manager.Stop(ctx) // The test may have killed it.
		assert.NoError(t, env.startManager(ctx))
	})
}

func getCheckpoint(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler) *autoscalingv1beta1.VerticalScalerCheckpoint {
	return refresh(t, &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name},
	})
}

// savedHistory returns the history in a scaler's checkpoint, which has one container.
func savedHistory(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler) *recommender.History {
	saved := getCheckpoint(t, scaler)
	require.Len(t, saved.Data.Containers, 1)
	history, err := recommender.Restore(saved.Data.Containers[0].History)
	require.NoError(t, err)
	return history
}

func sampleCount(history *recommender.History) int64 {
	return history.Recommend(recommender.DefaultPolicy(1)).Samples
}
