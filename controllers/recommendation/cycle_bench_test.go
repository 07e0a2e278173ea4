package recommendation_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/testenv"
)

// settleTimeout bounds the time until the status of every scaler is up to date.
const settleTimeout = 10 * time.Minute

// BenchmarkUsageCycle measures one reading of usage with a new sample of every pod, including
// learning from it, when the published recommendations are up to date.
func BenchmarkUsageCycle(b *testing.B) {
	few := testenv.FullOr(1_000, 30)
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
		b.ReportMetric(testenv.Median(after.seconds)/testenv.Median(before.seconds), "time-ratio")
		b.ReportMetric(testenv.Median(after.allocations)/testenv.Median(before.allocations), "allocations-ratio")
		b.ReportMetric(testenv.Median(after.bytes)/testenv.Median(before.bytes), "bytes-ratio")
		b.ReportMetric(after.heap/before.heap, "heap-ratio")
		b.ReportMetric(0, "ns/op") // Nothing is timed here.
	})
}

// cycleCosts are the costs of a cycle, one value per run, and the heap of the manager.
type cycleCosts struct {
	seconds, allocations, bytes []float64
	heap                        float64
}

// steadyManager is a manager of VerticalScalers whose targets' usage does not change.
type steadyManager struct {
	source   *steadySource
	cache    client.Reader
	requests atomic.Int64
}

// startSteadyManager creates scalers, each with a Deployment, its pods and a checkpoint of two
// weeks, and starts a manager. It returns when the manager writes nothing more.
func startSteadyManager(b *testing.B, scalers int, costs *cycleCosts) *steadyManager {
	b.Helper()
	// A log line would break a line of results.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	namespace := env.Namespace(b)
	m := &steadyManager{source: newSteadySource(createTargets(b, namespace, scalers))}
	before := testenv.HeapInUse()
	m.start(b, namespace)
	m.source.cycle()
	require.Eventually(b, func() bool { return m.hasLearned(b, scalers) }, settleTimeout, time.Second)
	// Events are recorded some time after the status is written.
	require.Eventually(b, func() bool { return m.requests.Swap(0) == 0 }, settleTimeout, time.Second)
	costs.heap = float64(testenv.HeapInUse() - before)
	return m
}

// start runs the manager until the benchmark ends. The source decides when a cycle starts.
func (m *steadyManager) start(b *testing.B, namespace string) {
	b.Helper()
	options := recommendation.UsageOptions{Interval: time.Nanosecond, CheckpointInterval: 24 * time.Hour}
	startManagerWith(b, nil, options, recommendation.Source{Source: m.source},
		func(options *ctrl.Options, config *rest.Config) {
			options.Logger = logr.Discard()
			options.Cache = onlyNamespace(namespace, options.Cache)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return testenv.RoundTripper(func(request *http.Request) (*http.Response, error) {
					m.requests.Add(1)
					return next.RoundTrip(request)
				})
			})
		},
		testenv.WrapCache(func(inner cache.Cache) cache.Cache {
			m.cache = inner
			return inner
		}),
	)
	b.Cleanup(func() { close(m.source.ended) }) // Before the manager stops.
	<-m.source.requested
}

// onlyNamespace makes a cache of all namespaces hold the objects of one, because the API server
// has objects of other benchmarks. A cache of given namespaces would be of another type.
func onlyNamespace(namespace string, options cache.Options) cache.Options {
	options.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", namespace)
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Node{}: {Field: fields.Everything()}}
	return options
}

// hasLearned reports whether the recommendations of all scalers are based on their checkpoints.
func (m *steadyManager) hasLearned(b *testing.B, scalers int) bool {
	b.Helper()
	var all autoscalingv1beta1.VerticalScalerList
	require.NoError(b, m.cache.List(b.Context(), &all, client.UnsafeDisableDeepCopy))
	learned := 0
	for i := range all.Items {
		published := all.Items[i].Status.Recommendations
		if len(published) > 0 && published[0].Span.Duration >= historyLength/2 {
			learned++
		}
	}
	return learned == scalers
}

// measureCycles measures cycles, one at a time.
func (m *steadyManager) measureCycles(b *testing.B, costs *cycleCosts) {
	var before, after runtime.MemStats
	m.source.cycle() // The first cycle allocates memory that the following ones use again.
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
