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

// The tests of this file stop the manager, so they are not parallel.

// TestWhatWasLearnedOutlivesTheManager kills and stops managers in turn, all of which learn of
// one Deployment. A container of it ran out of memory once.
func TestWhatWasLearnedOutlivesTheManager(t *testing.T) {
	const request = 400
	restartManagerWith(t) // It saves nothing before it stops.
	namespace := newNamespace(t)
	scaler, pod := startScaledPod(t, namespace, request)
	annotate(t, pod, "simulation.upright.example.com/oom-kill", "app/1")
	recommends := func(target string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			requireRecommendations(c, scaler, "app")
			require.Equal(c, target, memoryOf(scaler.Status.PodTarget))
		})
	}
	recommends(memoryOf(oomKilledTarget(t, request)))

	t.Run("a leader that hands over to another when it is asked to stop", func(t *testing.T) {
		leader := env.manager
		other, err := env.newManager(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Stop(context.WithoutCancel(t.Context())) })
		waitForUsageRead(t, leader, namespace, scaler.CreationTimestamp.Time)

		require.NoError(t, leader.Stop(t.Context()))

		handed := savedHistory(t, scaler)
		assert.Positive(t, sampleCount(handed))
		waitForUsageRead(t, other, namespace, handed.LastSample())
		require.NoError(t, other.Stop(t.Context()))
		last := savedHistory(t, scaler)
		assert.Greater(t, sampleCount(last), sampleCount(handed))
		assert.Equal(t, handed.FirstSample(), last.FirstSample())
		assert.Greater(t, last.LastSample(), handed.LastSample())
		assert.Equal(t, memoryOf(oomKilledTarget(t, request)), memoryOf(refresh(t, scaler).Status.PodTarget))
		assert.Len(t, getCheckpoint(t, scaler).Data.OOMKills, 1)
	})

	t.Run("a manager that was killed", func(t *testing.T) {
		// Its Lease would run on for a while, which another test waits for.
		args := []string{"--checkpoint-interval=1s", "--leader-elect=false"}
		require.NoError(t, env.startManager(t.Context(), args...))
		waitForAllReconciled(t)
		before := savedHistory(t, scaler)
		env.manager.Kill()

		require.NoError(t, env.startManager(t.Context(), args...))

		recommends(memoryOf(oomKilledTarget(t, request)))
		waitForAllReconciled(t)
		assert.Zero(t, countedOOMKills(t), "the kill, which the pod still waitForUsage, counts already")
		// What was published stays until something is known, so that it must be asked for anew.
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
			s.Spec.Recommendation = &autoscalingv1beta1.RecommendationPolicy{MarginPercent: ptr.To[int32](100)}
		})
		policy := recommender.DefaultPolicy(1)
		policy.Margin = 1
		want := amountsOf(before.Recommend(policy))
		recommends(memoryOf(want))
		eventually(t, func(c *assert.CollectT) {
			after := savedHistory(c, scaler)
			require.GreaterOrEqual(c, sampleCount(after), sampleCount(before))
			require.Equal(c, before.FirstSample(), after.FirstSample())
		})
		assert.Len(t, getCheckpoint(t, scaler).Data.OOMKills, 1)
	})

	t.Run("until the scaler is deleted, whose checkpoint goes with it and nothing else", func(t *testing.T) {
		checkpoint := getCheckpoint(t, scaler)
		before := workloadVersions(t, namespace)
		require.Len(t, before, 3, "a Deployment, a ReplicaSet and a pod")

		remove(t, scaler)

		waitForGone(t, scaler)
		waitForGone(t, checkpoint)
		assert.Equal(t, before, workloadVersions(t, namespace))
	})
}

// restartManagerWith has the manager run with further arguments until the test ends.
func restartManagerWith(t *testing.T, args ...string) {
	t.Helper()
	require.NoError(t, env.manager.Stop(t.Context()))
	require.NoError(t, env.startManager(t.Context(), args...))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = env.manager.Stop(ctx) // The test may have ended it in its own way.
		assert.NoError(t, env.startManager(ctx))
	})
}

func getCheckpoint(t require.TestingT, scaler *autoscalingv1beta1.VerticalScaler) *autoscalingv1beta1.VerticalScalerCheckpoint {
	return refresh(t, &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name},
	})
}

// savedHistory returns what a scaler's checkpoint has of its only container.
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
