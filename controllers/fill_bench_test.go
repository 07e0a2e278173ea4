package controllers

import (
	"context"
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

// fillers is the number of clients that fill the API server at a time.
const fillers = 16

// fullOr returns how many objects to measure with: all, or a few in the short form.
func fullOr(full, few int) int {
	if testing.Short() {
		return few
	}
	return full
}

// fill calls create for 0 to count-1, some at a time.
func fill(b *testing.B, count int, create func(i int) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(fillers)
	for i := range count {
		group.Go(func() error { return create(i) })
	}
	require.NoError(b, group.Wait())
}

// namespaces creates some namespaces.
func namespaces(b *testing.B, count int) []string {
	b.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = env.Namespace(b)
	}
	return names
}

// startCache runs a cache that holds the kinds, and returns it, filled, and what stops it.
func startCache(
	b *testing.B, config *rest.Config, options cache.Options, prepare func(cache.Cache) error, kinds ...client.Object,
) (filled cache.Cache, stop func()) {
	b.Helper()
	// A log would get into the middle of a line of results.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	options.Scheme = env.Client.Scheme()
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
