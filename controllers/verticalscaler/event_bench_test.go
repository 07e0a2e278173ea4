package controllers

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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/mappers"
)

// BenchmarkDeploymentEvent measures what an event about a Deployment costs until its scalers
// are in the work queue: by the handler that the controller watches with, and by the map
// function that lists all scalers, both from the manager's cache.
func BenchmarkDeploymentEvent(b *testing.B) {
	count := fullOr(10_000, 500)
	b.Run(fmt.Sprintf("scalers=%d", count), func(b *testing.B) {
		deployments := createScalers(b, count)
		var requests atomic.Int64
		scalers := startScalerCache(b, &requests)
		failures, err := mappers.NewFailures(prometheus.NewRegistry())
		require.NoError(b, err)
		for name, handle := range map[string]handler.EventHandler{
			"index": mappers.DeploymentToVerticalScalers(scalers, failures),
			"list":  handler.EnqueueRequestsFromMapFunc(byFullList(scalers)),
		} {
			b.Run(name, func(b *testing.B) { measureEvents(b, handle, deployments, &requests) })
		}
	})
}

// measureEvents has each event handled once, those about all Deployments in turn.
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
	handleNext() // The first one costs more, which would show in the short form.
	before := requests.Load()
	b.ReportAllocs()
	for b.Loop() {
		handleNext()
	}
	b.ReportMetric(float64(requests.Load()-before), "API-requests")
	require.Equal(b, min(handled, len(deployments)), queue.Len(), "scalers in the queue")
}

// byFullList is the map function that does without an index.
func byFullList(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, deployment client.Object) []reconcile.Request {
		var all autoscalingv1beta1.VerticalScalerList
		if err := reader.List(ctx, &all); err != nil {
			return nil // The queue is then short of a scaler.
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

// createScalers creates scalers in 100 namespaces and returns the metadata of the Deployments
// that they name, one each, as the cache would have it.
func createScalers(b *testing.B, count int) []*metav1.PartialObjectMetadata {
	names := namespaces(b, 100)
	deployments := make([]*metav1.PartialObjectMetadata, count)
	fill(b, count, func(i int) error {
		deployments[i] = newDeploymentMetadata()
		deployments[i].Namespace = names[i%len(names)]
		deployments[i].Name = fmt.Sprintf("web-%d", i)
		return env.Client.Create(b.Context(), &autoscalingv1beta1.VerticalScaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: deployments[i].Namespace, Name: fmt.Sprintf("scaler-%d", i)},
			Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployments[i].Name},
		})
	})
	return deployments
}

// startScalerCache returns a cache that holds all scalers, with the manager's index, and that
// counts its requests.
func startScalerCache(b *testing.B, requests *atomic.Int64) cache.Cache {
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, requests} })
	scalers, stop := startCache(b, config, CacheOptions(nil), func(c cache.Cache) error {
		return indexers.AddVerticalScalerDeploymentName(b.Context(), c)
	}, &autoscalingv1beta1.VerticalScaler{})
	b.Cleanup(stop)
	require.Positive(b, requests.Load(), "requests counted while the cache was filled")
	return scalers
}

// countingTransport counts requests.
type countingTransport struct {
	http.RoundTripper
	count *atomic.Int64
}

// RoundTrip counts the request and passes it on.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.count.Add(1)
	return t.RoundTripper.RoundTrip(request)
}
