package testenv

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fillers is the number of objects that are created at a time.
const fillers = 16

// FullOr returns the number of objects to measure with: full, or few with -short.
func FullOr(full, few int) int {
	if testing.Short() {
		return few
	}
	return full
}

// Fill calls create for 0 to count-1, 16 at a time.
func Fill(b testing.TB, count int, create func(i int) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(fillers)
	for i := range count {
		group.Go(func() error { return create(i) })
	}
	require.NoError(b, group.Wait())
}

// Namespaces creates namespaces and returns their names.
func (e *Environment) Namespaces(b *testing.B, count int) []string {
	b.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = e.Namespace(b)
	}
	return names
}

// StartCache runs a cache of some kinds and returns it when it has synced, with a function that
// stops it.
func (e *Environment) StartCache(
	b *testing.B, config *rest.Config, options cache.Options, prepare func(cache.Cache) error, kinds ...client.Object,
) (filled cache.Cache, stop func()) {
	b.Helper()
	// A log line would break a line of results.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	options.Scheme = e.Client.Scheme()
	filled, err := cache.New(config, options)
	require.NoError(b, err)
	require.NoError(b, prepare(filled))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- filled.Start(ctx) }()
	for _, kind := range kinds {
		_, err := filled.GetInformer(ctx, kind)
		require.NoError(b, err)
	}
	require.True(b, filled.WaitForCacheSync(ctx))
	return filled, func() {
		cancel()
		require.NoError(b, <-stopped)
	}
}

// Median returns the median of values.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// HeapInUse collects the garbage and returns the bytes that are in use.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC() // The second collection frees objects with finalizers and pools.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
