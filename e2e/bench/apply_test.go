package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// raisedMemory is more than the recommendation for a container that uses steadyMemory.
var raisedMemory = resource.MustParse("400Mi")

// applyBench is a manager that applies its recommendations for a number of VerticalScalers.
type applyBench struct {
	*upright
	scalers int
	sizes   *sizeFollower
}

// BenchmarkApply measures how fast the manager resizes pods, and how much it writes for that.
func BenchmarkApply(b *testing.B) {
	scalers := fullOr(1000, 20)
	b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
		a := applyBench{upright: startCluster(b, 12), scalers: scalers} // 12 nodes have room for all pods.
		a.createScaled(b, scalers, corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}, autoscalingv1beta1.VerticalScalerSpec{Behavior: &autoscalingv1beta1.Behavior{
			// Recommendations from few samples would otherwise wait for the stabilization window.
			ScaleUp: &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: new(int32)},
		}})
		a.sizes = followSizes(b, a.upright)
		// The manager reads usage only once, when it starts: BenchmarkRecommend measures that.
		a.startManager(b, "--metrics-interval=1h")
		a.sizes.waitPods(b, steadyMemory.Value())
		a.sizes.waitScalers(b, steadyMemory.Value())

		a.changeTargets(b)
		a.changeOthers(b)
		a.raiseAll(b)
		a.killContainers(b)
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is pauses between changes.
	})
}

// changeTargets measures the time from a Deployment's change to the reconcile of its scaler. A
// reconcile starts with a read of the Deployment, which is in the audit log.
func (a *applyBench) changeTargets(b *testing.B) {
	b.Helper()
	before := a.reconciles(b)
	var mutex sync.Mutex
	changed := map[string]time.Time{}
	paced(b, deployments("web", a.scalers), 50, func(object client.Object) error {
		mutex.Lock()
		changed[object.GetName()] = time.Now()
		mutex.Unlock()
		return a.label(b, object)
	})
	a.waitReconciles(b, before+float64(a.scalers))
	var took []float64
	for _, r := range requests(b, a.cluster.AuditLog()) {
		at, isChanged := changed[r.Object.Name]
		if isChanged && r.Verb == "get" && r.Object.Resource == "deployments" && r.Received.After(at) {
			took = append(took, r.Received.Sub(at).Seconds())
			delete(changed, r.Object.Name)
		}
	}
	require.Empty(b, changed, "no reconcile read these changed Deployments")
	b.ReportMetric(percentile(took, 50), "p50-change-s")
	b.ReportMetric(percentile(took, 99), "p99-change-s")
}

// changeOthers counts the reconciles of scalers while Deployments without a scaler change.
func (a *applyBench) changeOthers(b *testing.B) {
	b.Helper()
	others := deployments("other", fullOr(100, 5))
	for _, object := range others {
		require.NoError(b, a.client.Create(b.Context(), emptyDeployment(object.GetName())))
	}
	before, begin := a.reconciles(b), time.Now()
	const perMinute = 10_000
	changes := slices.Repeat(others, fullOr(perMinute, 200)/len(others))
	paced(b, changes, perMinute/60.0, func(object client.Object) error { return a.label(b, object) })
	took := time.Since(begin)
	// One watch delivers all Deployments. When the manager reconciles after this last change, it
	// has also received all changes before it.
	require.NoError(b, a.label(b, deployments("web", 1)[0]))
	after := a.waitReconciles(b, before+1)
	b.ReportMetric(float64(len(changes))/took.Minutes(), "others-changes/min")
	b.ReportMetric(after-before-1, "others-reconciles")
}

// raiseAll creates a LimitRange that changes the sizes of all pods, and counts the writes until
// the statuses of all scalers show that the new sizes are applied.
func (a *applyBench) raiseAll(b *testing.B) {
	b.Helper()
	begin := time.Now()
	require.NoError(b, a.client.Create(b.Context(), minimumMemory(raisedMemory)))
	last := a.sizes.waitPods(b, raisedMemory.Value())
	a.sizes.waitScalers(b, raisedMemory.Value())
	written := between(writes(b, a.cluster.AuditLog()), begin, time.Now())

	resizes := map[string]int{}
	for _, r := range selected(written, isResize) {
		resizes[r.Object.Name]++
	}
	b.ReportMetric(last.Sub(begin).Seconds(), "s-to-resize-all")
	b.ReportMetric(float64(len(selected(written, isResize)))/float64(a.scalers*podsEach), "resizes/pod")
	b.ReportMetric(float64(slices.Max(slices.Collect(maps.Values(resizes)))), "max-resizes/pod")
	b.ReportMetric(float64(len(selected(written, isScalerStatus)))/float64(a.scalers), "status-writes/scaler")
	b.ReportMetric(float64(len(selected(written, request.isEvent)))/float64(a.scalers), "events/scaler")
	b.ReportMetric(float64(len(selected(written, isSizeTable))), "table-writes")
	others := selected(written, func(r request) bool {
		return !isResize(r) && !isScalerStatus(r) && !isSizeTable(r) && !r.isEvent() && !isCheckpoint(r)
	})
	assert.Empty(b, others, "other writes")
}

// killContainers simulates OOM kills in pods of several Deployments, one after another, and
// measures the time until each of these pods has more memory.
func (a *applyBench) killContainers(b *testing.B) {
	b.Helper()
	killed := a.podsOfDeployments(fullOr(100, 10))
	paced(b, killed, 5, func(object client.Object) error {
		return a.annotate(b, object, "simulation.upright.example.com/oom-kill", anyContainer().Name+"/1")
	})
	took := make([]float64, len(killed))
	a.sizes.wait(b, func() bool {
		for i, object := range killed {
			pod := a.sizes.pods[object.GetName()]
			if pod.killed.IsZero() || !pod.resized.After(pod.killed) {
				return false
			}
			took[i] = pod.resized.Sub(pod.killed).Seconds()
		}
		return true
	})
	b.ReportMetric(percentile(took, 50), "p50-oom-kill-s")
	b.ReportMetric(percentile(took, 99), "p99-oom-kill-s")
}

// podsOfDeployments returns one pod of each of count Deployments.
func (a *applyBench) podsOfDeployments(count int) []client.Object {
	a.sizes.mu.Lock()
	defer a.sizes.mu.Unlock()
	byDeployment := map[string]client.Object{}
	for _, name := range slices.Sorted(maps.Keys(a.sizes.pods)) {
		byDeployment[a.sizes.pods[name].deployment] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	var pods []client.Object
	for _, deployment := range slices.Sorted(maps.Keys(byDeployment))[:count] {
		pods = append(pods, byDeployment[deployment])
	}
	return pods
}

// reconciles returns the number of reconciles of scalers since the manager started.
func (a *applyBench) reconciles(b *testing.B) float64 {
	b.Helper()
	return a.scrape(b).count(b, "controller_runtime_reconcile_total", "verticalscaler")
}

// waitReconciles waits until the number of reconciles of scalers is at least the given one, and
// returns it.
func (a *applyBench) waitReconciles(b *testing.B, atLeast float64) (count float64) {
	b.Helper()
	deadline := time.Now().Add(timeout)
	for count = a.reconciles(b); count < atLeast; count = a.reconciles(b) {
		require.True(b, time.Now().Before(deadline), "%v of %v reconciles in %v", count, atLeast, timeout)
		sleep(time.Second) // Metrics cannot be watched.
	}
	return count
}

// label changes a label of an object to a new value.
func (a *applyBench) label(b *testing.B, object client.Object) error {
	return a.patchMetadata(b, object, "labels", "changed", strconv.FormatInt(time.Now().UnixNano(), 10))
}

func (a *applyBench) annotate(b *testing.B, object client.Object, key, value string) error {
	return a.patchMetadata(b, object, "annotations", key, value)
}

func (a *applyBench) patchMetadata(b *testing.B, object client.Object, field, key, value string) error {
	change := fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, field, key, value)
	return a.client.Patch(b.Context(), object.DeepCopyObject().(client.Object),
		client.RawPatch("application/merge-patch+json", []byte(change)))
}

// deployments returns Deployments that have only a name.
func deployments(name string, count int) []client.Object {
	objects := make([]client.Object, count)
	for i := range objects {
		objects[i] = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)}}
	}
	return objects
}

// minimumMemory returns a LimitRange that requires each container to request so much memory.
func minimumMemory(memory resource.Quantity) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "minimum"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: memory}},
		}},
	}
}

func isSizeTable(r request) bool { return r.Object.Resource == "sizetables" && isWrite(r) }

func isResize(r request) bool { return r.Object.Resource == "pods" && r.Object.Subresource == "resize" }
