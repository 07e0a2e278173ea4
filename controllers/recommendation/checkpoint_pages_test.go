package recommendation_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
)

func TestCheckpointsAreRestoredFromSeveralPages(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const count = recommendation.CheckpointPage + 20
	usageOfApp := historyOf(t, "app", testenv.SteadyUsage(testenv.NewPod(namespace, "web", "aaaaa"), "app", 0.3, 700, 3)...)
	scalerOf := func(i int) *autoscalingv1beta1.VerticalScaler {
		scaler := testenv.NewScaler(namespace, fmt.Sprintf("s-%04d", i), "web")
		scaler.UID = types.UID(scaler.Name)
		return scaler
	}
	var creators errgroup.Group
	creators.SetLimit(8)
	for i := range count {
		saved := newCheckpoint(scalerOf(i))
		if i < recommendation.CheckpointPage { // Data of the first page must not show in the second.
			saved.Data.Backfilled = true
			saved.Data.Containers = []autoscalingv1beta1.ContainerCheckpoint{{ContainerName: "app", History: usageOfApp.Checkpoint()}}
		}
		creators.Go(func() error { return env.Client.Create(context.Background(), saved) })
	}
	require.NoError(t, creators.Wait())

	ctx, cancel := context.WithTimeout(t.Context(), testenv.Timeout)
	defer cancel()
	server, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	var lists int
	store, err := recommendation.RestoreCheckpoints(ctx, namespace, interceptor.NewClient(server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}))
	require.NoError(t, err)
	assert.Equal(t, 2, lists)
	policy := recommender.DefaultPolicy(1)
	for i := range count {
		workload := store.History(scalerOf(i), time.Now())
		want, isFirstPage := recommender.Recommendation{}, i < recommendation.CheckpointPage
		if isFirstPage {
			want = usageOfApp.Recommend(policy)
		}
		require.Equal(t, want, workload.Recommend("app", policy), i)
		require.Equal(t, isFirstPage, workload.Backfilled(), i)
	}
	assert.Empty(t, store.Unsaved(time.Now()))
}
