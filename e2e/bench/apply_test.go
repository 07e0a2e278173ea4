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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// raised is more memory than is recommended to a container that uses steadyMemory.
var raised = resource.MustParse("400Mi")

// applying is the manager while it applies what it recommends for a number of VerticalScalers.
type applying struct {
	*upright
	scalers int
	seen    *sized
}

// BenchmarkApply measures how soon pods follow what happens, and what is written for that.
func BenchmarkApply(b *testing.B) {
	scalers := fullOr(1000, 20)
	b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
		a := applying{upright: startCluster(b, 12), scalers: scalers} // Nodes for all pods, however large.
		a.createScaled(b, scalers, corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}, autoscalingv1beta1.VerticalScalerSpec{Behavior: &autoscalingv1beta1.Behavior{
			// Little is known at first, of which the default would be patient.
			ScaleUp: &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: new(int32)},
		}})
		a.seen = startSized(b, a.upright)
		// Usage is read when the manager starts and then no more: that is another benchmark's.
		a.startManager(b, "--metrics-interval=1h")
		a.seen.waitSized(b, steadyMemory.Value())
		a.seen.waitApplied(b, steadyMemory.Value())

		a.changeTargets(b)
		a.changeOthers(b)
		a.raiseAll(b)
		a.killSome(b)
		b.ReportMetric(0, "ns/op") // Most of the time is spent making things happen, one after another.
	})
}

// changeTargets measures how soon a scaler is looked at whose Deployment changes: until the pass
// reads the Deployment, which is the first that it asks of the API server.
func (a *applying) changeTargets(b *testing.B) {
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
	require.Empty(b, changed, "Deployments that changed and were not read")
	b.ReportMetric(percentile(took, 50), "p50-change-s")
	b.ReportMetric(percentile(took, 99), "p99-change-s")
}

// changeOthers counts the passes over scalers that changes of others' Deployments cause.
func (a *applying) changeOthers(b *testing.B) {
	b.Helper()
	others := deployments("other", fullOr(100, 5))
	for _, object := range others {
		other := steadyDeployment(object.GetName(), nil)
		other.Spec.Replicas = ptr.To[int32](0)
		require.NoError(b, a.client.Create(b.Context(), other))
	}
	before, begin := a.reconciles(b), time.Now()
	const aMinute = 10_000
	changes := slices.Repeat(others, fullOr(aMinute, 200)/len(others))
	paced(b, changes, aMinute/60.0, func(object client.Object) error { return a.label(b, object) })
	took := time.Since(begin)
	// Deployments come by one watch: when this change has had its pass, all before it have been seen.
	require.NoError(b, a.label(b, deployments("web", 1)[0]))
	after := a.waitReconciles(b, before+1)
	b.ReportMetric(float64(len(changes))/took.Minutes(), "others-changes/min")
	b.ReportMetric(after-before-1, "others-reconciles")
}

// raiseAll changes what is recommended for all pods at once, by one LimitRange, and counts what
// is written until all scalers say that it is applied.
func (a *applying) raiseAll(b *testing.B) {
	b.Helper()
	least := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "least"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: raised}},
		}},
	}
	begin := time.Now()
	require.NoError(b, a.client.Create(b.Context(), least))
	last := a.seen.waitSized(b, raised.Value())
	a.seen.waitApplied(b, raised.Value())
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
	others := selected(written, func(r request) bool {
		return !isResize(r) && !isScalerStatus(r) && !r.isEvent() && !isCheckpoint(r)
	})
	assert.Empty(b, others, "what else was written")
}

// killSome has pods of some Deployments run out of memory, one after another, and measures how
// soon each of them has more.
func (a *applying) killSome(b *testing.B) {
	b.Helper()
	victims := a.victims(fullOr(100, 10))
	paced(b, victims, 5, func(object client.Object) error {
		return a.annotate(b, object, "simulation.upright.example.com/oom-kill", anyContainer().Name+"/1")
	})
	took := make([]float64, len(victims))
	a.seen.wait(b, func() bool {
		for i, object := range victims {
			pod := a.seen.pods[object.GetName()]
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

// victims returns a pod each of so many Deployments.
func (a *applying) victims(count int) []client.Object {
	a.seen.mu.Lock()
	defer a.seen.mu.Unlock()
	ofDeployment := map[string]client.Object{}
	for _, name := range slices.Sorted(maps.Keys(a.seen.pods)) {
		ofDeployment[a.seen.pods[name].deployment] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	var victims []client.Object
	for _, deployment := range slices.Sorted(maps.Keys(ofDeployment))[:count] {
		victims = append(victims, ofDeployment[deployment])
	}
	return victims
}

// reconciles returns how many passes over scalers there have been.
func (a *applying) reconciles(b *testing.B) float64 {
	b.Helper()
	return a.scrape(b).count(b, "controller_runtime_reconcile_total", "verticalscaler")
}

// waitReconciles waits until there have been so many passes over scalers, and returns how many
// there have been then.
func (a *applying) waitReconciles(b *testing.B, atLeast float64) (passes float64) {
	b.Helper()
	late := time.Now().Add(timeout)
	for passes = a.reconciles(b); passes < atLeast; passes = a.reconciles(b) {
		require.True(b, time.Now().Before(late), "%v of %v passes in %v", passes, atLeast, timeout)
		pass(time.Second) // Metrics can be read and not watched.
	}
	return passes
}

// label changes a label of an object, to a value that it never had.
func (a *applying) label(b *testing.B, object client.Object) error {
	return a.patchMetadata(b, object, "labels", "changed", strconv.FormatInt(time.Now().UnixNano(), 10))
}

func (a *applying) annotate(b *testing.B, object client.Object, key, value string) error {
	return a.patchMetadata(b, object, "annotations", key, value)
}

func (a *applying) patchMetadata(b *testing.B, object client.Object, field, key, value string) error {
	change := fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, field, key, value)
	return a.client.Patch(b.Context(), object.DeepCopyObject().(client.Object),
		client.RawPatch("application/merge-patch+json", []byte(change)))
}

// deployments returns Deployments by their names alone.
func deployments(name string, count int) []client.Object {
	objects := make([]client.Object, count)
	for i := range objects {
		objects[i] = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)}}
	}
	return objects
}

func isResize(r request) bool { return r.Object.Resource == "pods" && r.Object.Subresource == "resize" }
