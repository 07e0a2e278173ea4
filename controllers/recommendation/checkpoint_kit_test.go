package controllers

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
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

// isCheckpoint reports whether a request writes a checkpoint.
func isCheckpoint(request *http.Request) bool {
	return request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/verticalscalercheckpoints/")
}

// failCheckpoints lets the first requests that write a checkpoint fail.
func failCheckpoints(failures *atomic.Int64) func(*ctrl.Options, *rest.Config) {
	return func(_ *ctrl.Options, config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if isCheckpoint(request) && failures.Add(-1) >= 0 {
					return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
				}
				return next.RoundTrip(request)
			})
		})
	}
}

// savedSamples returns how many samples of container app a scaler's checkpoint has, 0 where
// there is none.
func savedSamples(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) int64 {
	t.Helper()
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), &autoscalingv1beta1.VerticalScalerCheckpoint{})
	if apierrors.IsNotFound(err) {
		return 0
	}
	require.NoError(t, err)
	return checkpointed(t, scaler, "app").Recommend(recommender.DefaultPolicy(1)).Samples
}
