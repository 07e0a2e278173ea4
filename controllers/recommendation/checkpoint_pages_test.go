package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/recommender"
)

func TestMoreThanAPageOfCheckpointsIsRestoredEachAsItIs(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const count = checkpointPage + 20
	history := historyOf(t, "app", uses(newPod(namespace, "web", "aaaaa"), "app", 0.3, 700, 3)...)
	scalerOf := func(i int) *autoscalingv1beta1.VerticalScaler {
		scaler := newScaler(namespace, fmt.Sprintf("s-%04d", i), "web")
		scaler.UID = types.UID(scaler.Name)
		return scaler
	}
	var creators errgroup.Group
	creators.SetLimit(8)
	for i := range count {
		scaler := scalerOf(i)
		saved := &autoscalingv1beta1.VerticalScalerCheckpoint{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: scaler.Name, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(scaler, autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler")),
			}},
			Data: autoscalingv1beta1.VerticalScalerCheckpointData{DeploymentName: "web"},
		}
		if i < checkpointPage { // What the first page has must not show in the second.
			saved.Data.Backfilled = true
			saved.Data.Containers = []autoscalingv1beta1.ContainerCheckpoint{{ContainerName: "app", History: history.Checkpoint()}}
		}
		creators.Go(func() error { return env.Client.Create(context.Background(), saved) })
	}
	require.NoError(t, creators.Wait())

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	store := history.NewStore()
	var lists int
	server, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	c := &Checkpointer{namespaces: []string{namespace}, histories: store, Client: interceptor.NewClient(server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})}
	require.NoError(t, c.restore(ctx))
	assert.Equal(t, 2, lists)
	policy := recommender.DefaultPolicy(1)
	for i := range count {
		record := store.Record(scalerOf(i), time.Now())
		want, isFirstPage := recommender.Recommendation{}, i < checkpointPage
		if isFirstPage {
			want = history.Recommend(policy)
		}
		require.Equal(t, want, record.Recommend("app", policy), i)
		require.Equal(t, isFirstPage, record.Backfilled(), i)
	}
	assert.Empty(t, store.Unsaved(time.Now()))
}
