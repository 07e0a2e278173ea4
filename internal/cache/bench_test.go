package cache

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkCachedDeployment measures the heap that the cache takes for each Deployment that is
// not Upright's: with the manager's options, and with none, where it holds whole Deployments.
func BenchmarkCachedDeployment(b *testing.B) {
	count := fullOr(10_000, 300)
	b.Run(fmt.Sprintf("deployments=%d", count), func(b *testing.B) {
		createReleases(b, count)
		b.Run("upright", func(b *testing.B) {
			measureCache(b, count, Options(nil), &appsv1.Deployment{}, NewDeploymentMetadata())
		})
		b.Run("whole", func(b *testing.B) {
			measureCache(b, count, cache.Options{}, &appsv1.Deployment{})
		})
	})
}

// measureCache compares the heap with the cache filled to the heap before there was one.
func measureCache(b *testing.B, count int, options cache.Options, kinds ...client.Object) {
	// The first cache makes what all that follow it share.
	_, stop := startCache(b, env.Config, options, func(cache.Cache) error { return nil }, kinds...)
	stop()
	var perDeployment []float64
	for b.Loop() {
		before := heap()
		filled, stop := startCache(b, env.Config, options, func(cache.Cache) error { return nil }, kinds...)
		after := heap()
		requireCached(b, filled, kinds[len(kinds)-1], count)
		stop()
		perDeployment = append(perDeployment, float64(after-before)/float64(count))
	}
	sum := 0.0
	for _, bytes := range perDeployment {
		sum += bytes
	}
	b.ReportMetric(sum/float64(len(perDeployment)), "B/deployment")
	b.ReportMetric(0, "ns/op") // What takes time here is collecting the garbage.
}

// heap returns the bytes in use, garbage collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // What has a finalizer, or is pooled, goes with the second.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// requireCached requires that the cache holds so many objects of the kind.
func requireCached(b *testing.B, filled cache.Cache, kind client.Object, count int) {
	b.Helper()
	informer, err := filled.GetInformer(b.Context(), kind)
	require.NoError(b, err)
	shared, ok := informer.(toolscache.SharedInformer)
	require.True(b, ok)
	require.Len(b, shared.GetStore().ListKeys(), count)
}

// createReleases creates Deployments as Helm charts do, in 50 namespaces, with the status of
// Deployments that are available.
func createReleases(b *testing.B, count int) {
	b.Helper()
	names := namespaces(b, 50)
	fill(b, count, func(i int) error {
		release := releaseDeployment(names[i%len(names)], fmt.Sprintf("shop-%d", i))
		if err := env.Client.Create(b.Context(), release, client.FieldOwner("helm")); err != nil {
			return err
		}
		release.Status = availableStatus()
		return env.Client.Status().Update(b.Context(), release, client.FieldOwner("kube-controller-manager"))
	})
}
