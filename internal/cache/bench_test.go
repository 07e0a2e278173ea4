package cache_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

// BenchmarkCachedDeployment measures the heap that the cache takes for each Deployment that
// Upright does not own: with the manager's options, and with default options, which keep whole
// Deployments.
func BenchmarkCachedDeployment(b *testing.B) {
	count := testenv.FullOr(10_000, 300)
	b.Run(fmt.Sprintf("deployments=%d", count), func(b *testing.B) {
		createReleases(b, count)
		b.Run("upright", func(b *testing.B) {
			measureCache(b, count, cache.Options(nil), &appsv1.Deployment{}, cache.NewDeploymentMetadata())
		})
		b.Run("whole", func(b *testing.B) {
			measureCache(b, count, ctrlcache.Options{}, &appsv1.Deployment{})
		})
	})
}

// measureCache compares the heap with the filled cache to the heap without a cache.
func measureCache(b *testing.B, count int, options ctrlcache.Options, kinds ...client.Object) {
	noIndexes := func(ctrlcache.Cache) error { return nil }
	// The first cache allocates what all caches share.
	_, stop := env.StartCache(b, env.Config, options, noIndexes, kinds...)
	stop()
	var perDeployment []float64
	for b.Loop() {
		before := testenv.HeapInUse()
		filled, stop := env.StartCache(b, env.Config, options, noIndexes, kinds...)
		after := testenv.HeapInUse()
		requireCached(b, filled, kinds[len(kinds)-1], count)
		stop()
		perDeployment = append(perDeployment, float64(after-before)/float64(count))
	}
	sum := 0.0
	for _, bytes := range perDeployment {
		sum += bytes
	}
	b.ReportMetric(sum/float64(len(perDeployment)), "B/deployment")
	b.ReportMetric(0, "ns/op") // Garbage collection takes most of the time.
}

// requireCached requires that the cache has count objects of a kind.
func requireCached(b *testing.B, filled ctrlcache.Cache, kind client.Object, count int) {
	b.Helper()
	informer, err := filled.GetInformer(b.Context(), kind)
	require.NoError(b, err)
	shared, ok := informer.(toolscache.SharedInformer)
	require.True(b, ok)
	require.Len(b, shared.GetStore().ListKeys(), count)
}

// createReleases creates the Deployments of Helm releases, in 50 namespaces, with the status of
// available Deployments.
func createReleases(b *testing.B, count int) {
	b.Helper()
	namespaces := env.Namespaces(b, 50)
	testenv.Fill(b, count, func(i int) error {
		release := testenv.ReleaseDeployment(namespaces[i%len(namespaces)], fmt.Sprintf("site-%d", i))
		if err := env.Client.Create(b.Context(), release, client.FieldOwner("helm")); err != nil {
			return err
		}
		release.Status = testenv.AvailableStatus()
		return env.Client.Status().Update(b.Context(), release, client.FieldOwner("kube-controller-manager"))
	})
}
