package verticalscaler

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
	"example.com/upright/mappers"
)

// BenchmarkDeploymentEvent measures the cost of an event about a Deployment until its scalers
// are in the work queue. It compares the handler of the controller's watch with a map function
// that lists all scalers. Both read the manager's cache.
func BenchmarkDeploymentEvent(b *testing.B) {
	count := testenv.FullOr(10_000, 500)
	b.Run(fmt.Sprintf("scalers=%d", count), func(b *testing.B) {
		deployments := createScalers(b, count)
		var requests atomic.Int64
		scalers := startScalerCache(b, &requests)
		failures, err := mappers.NewFailures(prometheus.NewRegistry())
		require.NoError(b, err)
		for name, handle := range map[string]handler.EventHandler{
			"index": mappers.New(scalers, failures).DeploymentToVerticalScalers(),
			"list":  handler.EnqueueRequestsFromMapFunc(mapWithFullList(scalers)),
		} {
			b.Run(name, func(b *testing.B) { measureEvents(b, handle, deployments, &requests) })
		}
	})
}

// measureEvents handles events about all Deployments in turn.
func measureEvents(
	b *testing.B, handle handler.EventHandler, deployments []*metav1.PartialObjectMetadata, requests *atomic.Int64,
) {
	queue := priorityqueue.New[reconcile.Request](b.Name())
	defer queue.ShutDown()
	handled := 0
	handleNext := func() {
		deployment := deployments[handled%len(deployments)]
		handle.Update(b.Context(), event.UpdateEvent{ObjectOld: deployment, ObjectNew: deployment}, queue)
		handled++
	}
	handleNext() // The first event costs more, which would show with -short.
	before := requests.Load()
	b.ReportAllocs()
	for b.Loop() {
		handleNext()
	}
	b.ReportMetric(float64(requests.Load()-before), "API-requests")
	require.Equal(b, min(handled, len(deployments)), queue.Len(), "scalers in the queue")
}

// mapWithFullList returns a map function that uses no index.
func mapWithFullList(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, deployment client.Object) []reconcile.Request {
		var all autoscalingv1beta1.VerticalScalerList
		if err := reader.List(ctx, &all); err != nil {
			return nil // measureEvents then misses a scaler in the queue.
		}
		var requests []reconcile.Request
		for i := range all.Items {
			scaler := &all.Items[i]
			if scaler.Namespace == deployment.GetNamespace() && scaler.Spec.DeploymentName == deployment.GetName() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(scaler)})
			}
		}
		return requests
	}
}

// createScalers creates scalers in 100 namespaces and returns the metadata of their targets, as
// the cache has them. Each scaler has another target.
func createScalers(b *testing.B, count int) []*metav1.PartialObjectMetadata {
	b.Helper()
	names := env.Namespaces(b, 100)
	deployments := make([]*metav1.PartialObjectMetadata, count)
	testenv.Fill(b, count, func(i int) error {
		deployments[i] = cache.NewDeploymentMetadata()
		deployments[i].Namespace = names[i%len(names)]
		deployments[i].Name = fmt.Sprintf("web-%d", i)
		return env.Client.Create(b.Context(),
			testenv.NewScaler(deployments[i].Namespace, fmt.Sprintf("scaler-%d", i), deployments[i].Name))
	})
	return deployments
}

// scalerIndexer adds only the indexes of VerticalScalers, so that the cache holds no other kind.
type scalerIndexer struct{ client.FieldIndexer }

// IndexField adds an index of VerticalScalers.
func (i scalerIndexer) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if _, isScaler := obj.(*autoscalingv1beta1.VerticalScaler); !isScaler {
		return nil
	}
	return i.FieldIndexer.IndexField(ctx, obj, field, extract)
}

// startScalerCache returns a cache of all scalers with the manager's index. It counts the
// cache's requests.
func startScalerCache(b *testing.B, requests *atomic.Int64) ctrlcache.Cache {
	b.Helper()
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(request *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(request)
		})
	})
	scalers, stop := env.StartCache(b, config, cache.Options(nil), func(c ctrlcache.Cache) error {
		return indexers.AddAll(b.Context(), scalerIndexer{c})
	}, &autoscalingv1beta1.VerticalScaler{})
	b.Cleanup(stop)
	require.Positive(b, requests.Load(), "the requests that fill the cache are counted")
	return scalers
}
