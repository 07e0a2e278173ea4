package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// checkpoint returns a scaler's checkpoint.
func checkpoint(t assert.TestingT, scaler *autoscalingv1beta1.VerticalScaler) *autoscalingv1beta1.VerticalScalerCheckpoint {
	found := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	assert.NoError(t, env.Client.Get(context.Background(), client.ObjectKeyFromObject(scaler), found))
	return found
}

// checkpointed returns what a scaler's checkpoint has of a container.
func checkpointed(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, container string) *recommender.History {
	t.Helper()
	for _, saved := range checkpoint(t, scaler).Data.Containers {
		if saved.ContainerName == container {
			history, err := recommender.Restore(saved.History)
			require.NoError(t, err)
			return history
		}
	}
	require.Fail(t, "the checkpoint does not have the container", container)
	return nil
}
