package recommendation_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
)

// newCheckpoint returns a scaler's checkpoint without any history.
func newCheckpoint(scaler *autoscalingv1beta1.VerticalScaler) *autoscalingv1beta1.VerticalScalerCheckpoint {
	return &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(scaler, autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler")),
		}},
		Data: autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: scaler.Spec.DeploymentName},
	}
}

// checkpoint returns a scaler's checkpoint.
func checkpoint(t assert.TestingT, scaler *autoscalingv1beta1.VerticalScaler) *autoscalingv1beta1.VerticalScalerCheckpoint {
	found := &autoscalingv1beta1.VerticalScalerCheckpoint{}
	assert.NoError(t, env.Client.Get(context.Background(), client.ObjectKeyFromObject(scaler), found))
	return found
}

// checkpointed returns the history of a container in a scaler's checkpoint.
func checkpointed(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, container string) *recommender.History {
	t.Helper()
	for _, saved := range checkpoint(t, scaler).Data.Containers {
		if saved.ContainerName == container {
			history, err := recommender.Restore(saved.History)
			require.NoError(t, err)
			return history
		}
	}
	require.Fail(t, "the container is missing in the checkpoint", container)
	return nil
}

// savedSamples returns the number of samples of container app in a scaler's checkpoint, or 0 if
// there is no checkpoint.
func savedSamples(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) int64 {
	t.Helper()
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), &autoscalingv1beta1.VerticalScalerCheckpoint{})
	if apierrors.IsNotFound(err) {
		return 0
	}
	require.NoError(t, err)
	return checkpointed(t, scaler, "app").Recommend(recommender.DefaultPolicy(1)).Samples
}

// failCheckpointWrites makes the first writes of checkpoints fail. Each subtracts 1 from failures.
func failCheckpointWrites(failures *atomic.Int64) testenv.Change {
	return testenv.Fault(func(request *http.Request) (*http.Response, error) {
		if isCheckpointWrite(request) && failures.Add(-1) >= 0 {
			return testenv.InternalError(), nil
		}
		return nil, nil
	})
}

func isCheckpointWrite(request *http.Request) bool {
	return request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/verticalscalercheckpoints")
}

// loseCheckpointAnswers loses the answers to the first writes of checkpoints, which succeed. Each
// subtracts 1 from lost.
func loseCheckpointAnswers(lost *atomic.Int64) testenv.Change {
	return func(_ *ctrl.Options, config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return testenv.RoundTripper(func(request *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(request)
				if isCheckpointWrite(request) && lost.Add(-1) >= 0 {
					return testenv.InternalError(), nil
				}
				return response, err
			})
		})
	}
}

// failCheckpointReads makes reads of checkpoints fail until isFixed is true, and counts them.
func failCheckpointReads(isFixed *atomic.Bool, failed *atomic.Int64) testenv.Change {
	return testenv.Fault(func(request *http.Request) (*http.Response, error) {
		isRead := request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/verticalscalercheckpoints")
		if isRead && !isFixed.Load() {
			failed.Add(1)
			return testenv.InternalError(), nil
		}
		return nil, nil
	})
}
