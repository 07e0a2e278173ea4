package controllers

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// settleTimeout bounds the time until every scaler has said what there is to say.
const settleTimeout = 10 * time.Minute

// BenchmarkUsageCycle measures what the manager does with one reading of the usage of all pods,
// each sample of which is fresh, when the scalers have said already what there is to say.
func BenchmarkUsageCycle(b *testing.B) {
	few := fullOr(1_000, 30)
	many := 10 * few
	measured := map[int]*cycleCosts{}
	for _, scalers := range []int{few, many} {
		b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
			costs := &cycleCosts{}
			manager := startSteadyManager(b, scalers, costs)
			b.Run("cycle", func(b *testing.B) { manager.measureCycles(b, costs) })
			measured[scalers] = costs
		})
	}
	b.Run("growth", func(b *testing.B) {
		before, after := measured[few], measured[many]
		if before == nil || after == nil {
			b.Skip("both numbers of scalers must be measured")
		}
		b.ReportMetric(median(after.seconds)/median(before.seconds), "time-ratio")
		b.ReportMetric(median(after.allocations)/median(before.allocations), "allocations-ratio")
		b.ReportMetric(median(after.bytes)/median(before.bytes), "bytes-ratio")
		b.ReportMetric(after.heap/before.heap, "heap-ratio")
		b.ReportMetric(0, "ns/op") // There is nothing left to time.
	})
}

// cycleCosts are what a cycle costs, one figure for each run, and the heap that the manager takes.
type cycleCosts struct {
	seconds, allocations, bytes []float64
	heap                        float64
}

func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// steadyManager is a manager of VerticalScalers whose targets' usage does not change.
type steadyManager struct {
	source   *steadySource
	requests atomic.Int64
}

// startSteadyManager creates scalers, each with a Deployment, its pods and a checkpoint of two
// weeks, and starts a manager. It returns when all is written that there is to write.
func startSteadyManager(b *testing.B, scalers int, costs *cycleCosts) *steadyManager {
	b.Helper()
	// A log would get into the middle of a line of results.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	namespace := env.Namespace(b)
	m := &steadyManager{source: newSteadySource(createTargets(b, namespace, scalers))}
	before := heap()
	cached := m.start(b, namespace)
	m.source.cycle()
	require.Eventually(b, func() bool { return haveLearned(b, cached, scalers) }, settleTimeout, time.Second)
	// Events come after the statuses that they tell of, and when they do is not known.
	require.Eventually(b, func() bool { return m.requests.Swap(0) == 0 }, settleTimeout, time.Second)
	costs.heap = float64(heap() - before)
	return m
}

// start runs every controller, for one namespace, until the benchmark ends, and returns the cache.
func (m *steadyManager) start(b *testing.B, namespace string) client.Reader {
	b.Helper()
	restConfig := rest.CopyConfig(env.Config)
	restConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, &m.requests} })
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:     apis.NewScheme(),
		Logger:     logr.Discard(),
		Cache:      onlyOf(namespace, CacheOptions(nil)),
		Client:     ClientOptions(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	// The source says when a cycle begins.
	_, err = setup(ctx, mgr, Options{
		Concurrency: fillers, Metrics: prometheus.NewRegistry(),
		Usage: UsageOptions{Interval: time.Nanosecond, CheckpointInterval: 24 * time.Hour},
	}, usageSource{Source: m.source})
	require.NoError(b, err)
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		close(m.source.ended)
		require.NoError(b, <-stopped)
	})
	<-m.source.asked
	return mgr.GetCache()
}

// onlyOf has a cache of all namespaces hold what is in one: one that is asked for some namespaces
// is of another kind, and there is more in the API server than this benchmark's.
func onlyOf(namespace string, options cache.Options) cache.Options {
	options.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", namespace)
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Node{}: {Field: fields.Everything()}}
	return options
}

// haveLearned reports whether all scalers recommend by what their checkpoints hold.
func haveLearned(b *testing.B, cached client.Reader, scalers int) bool {
	b.Helper()
	var all autoscalingv1beta1.VerticalScalerList
	require.NoError(b, cached.List(b.Context(), &all, client.UnsafeDisableDeepCopy))
	learned := 0
	for i := range all.Items {
		if said := all.Items[i].Status.Recommendations; len(said) > 0 && said[0].Span.Duration >= learnedBefore/2 {
			learned++
		}
	}
	return learned == scalers
}

// measureCycles measures cycles, one at a time.
func (m *steadyManager) measureCycles(b *testing.B, costs *cycleCosts) {
	var before, after runtime.MemStats
	m.source.cycle() // What is allocated once only would show in the short form.
	m.requests.Store(0)
	b.ReportAllocs()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		m.source.cycle()
	}
	runtime.ReadMemStats(&after)
	cycles := float64(b.N)
	costs.seconds = append(costs.seconds, b.Elapsed().Seconds()/cycles)
	costs.allocations = append(costs.allocations, float64(after.Mallocs-before.Mallocs)/cycles)
	costs.bytes = append(costs.bytes, float64(after.TotalAlloc-before.TotalAlloc)/cycles)
	b.ReportMetric(float64(m.requests.Load()), "API-requests")
	b.ReportMetric(costs.heap, "heap-B")
}
