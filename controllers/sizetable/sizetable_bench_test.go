package sizetable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// BenchmarkSizeTable measures the writes of a table, and the time until it is complete, when the
// sizes of all scalers of a namespace change at once, and the cost of a reconcile after that.
func BenchmarkSizeTable(b *testing.B) {
	count := testenv.FullOr(1000, 50)
	b.Run(fmt.Sprintf("burst/scalers=%d", count), func(b *testing.B) {
		namespace, created := createScalers(b, count)
		m := startQuietManager(b, namespace)
		m.waitForReconcile(b)
		begin := time.Now()
		changeSizes(b, created, large)
		changed := time.Now()
		waitForSizes(b, created, large)
		b.ReportMetric(float64(len(m.writes.all())), "writes")
		b.ReportMetric(time.Since(begin).Seconds(), "s")
		b.ReportMetric(time.Since(changed).Seconds(), "s-after-last-change")
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is spent creating the scalers.
	})
	for _, count := range []int{testenv.FullOr(1000, 50), testenv.FullOr(4000, 100)} {
		b.Run(fmt.Sprintf("nothing-to-do/scalers=%d", count), func(b *testing.B) {
			namespace, created := createScalers(b, count)
			changeSizes(b, created, large)
			m := startQuietManager(b, namespace)
			waitForSizes(b, created, large)
			m.waitUntilIdle(b, namespace)
			writes := len(m.writes.all())
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sizeTable(namespace))}
			b.ReportAllocs()
			for b.Loop() {
				result, err := m.tables.Reconcile(b.Context(), request)
				require.NoError(b, err)
				require.Zero(b, result)
			}
			require.Len(b, m.writes.all(), writes)
		})
	}
}

// BenchmarkStatusToPod measures the time from the write of a scaler's status until the API server
// creates pods with the size in it, in a namespace with other scalers. Each round starts when the
// table may be written again.
func BenchmarkStatusToPod(b *testing.B) {
	require.NoError(b, env.InstallAdmission())
	count, rounds := testenv.FullOr(1000, 20), testenv.FullOr(50, 3)
	b.Run(fmt.Sprintf("scalers=%d", count), func(b *testing.B) {
		namespace, created := createScalers(b, count)
		changeSizes(b, created, small)
		m := startQuietManager(b, namespace)
		waitForSizes(b, created, small)
		pod := testenv.NewPod(namespace, created[0].Spec.DeploymentName, "", "web")
		pod.GenerateName, pod.Name = pod.Name, ""
		waitUntilPodGets(b, pod, small)
		var took []float64
		for i := range rounds {
			m.waitUntilIdle(b, namespace)
			requests := []corev1.ResourceList{large, huge}[i%2]
			begin := time.Now()
			require.NoError(b, writeSizing(created[0], sizing("web", requests), sizing("proxy", small)))
			waitUntilPodGets(b, pod, requests)
			took = append(took, time.Since(begin).Seconds())
		}
		slices.Sort(took)
		b.ReportMetric(testenv.Median(took), "p50-s")
		b.ReportMetric(took[len(took)*99/100], "p99-s")
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is spent between the rounds.
	})
}

// waitUntilPodGets waits until a new pod's container gets requests.
func waitUntilPodGets(b *testing.B, pod *corev1.Pod, requests corev1.ResourceList) {
	b.Helper()
	deadline := time.Now().Add(testenv.Timeout)
	for {
		created := pod.DeepCopy()
		require.NoError(b, env.Client.Create(b.Context(), created, client.DryRunAll))
		if equality.Semantic.DeepEqual(created.Spec.Containers[0].Resources.Requests, requests) {
			return
		}
		require.True(b, time.Now().Before(deadline), "created with %v", created.Spec.Containers[0].Resources.Requests)
	}
}

// createScalers creates scalers of a new namespace, each of another Deployment.
func createScalers(b *testing.B, count int) (namespace string, created []*autoscalingv1beta1.VerticalScaler) {
	b.Helper()
	namespace, created = env.Namespace(b), make([]*autoscalingv1beta1.VerticalScaler, count)
	testenv.Fill(b, count, func(i int) error {
		created[i] = testenv.NewScaler(namespace, fmt.Sprintf("web-%d", i), fmt.Sprintf("web-%d", i))
		return env.Client.Create(b.Context(), created[i])
	})
	return namespace, created
}

// changeSizes writes a size into the status of all scalers.
func changeSizes(b *testing.B, created []*autoscalingv1beta1.VerticalScaler, requests corev1.ResourceList) {
	b.Helper()
	testenv.Fill(b, len(created), func(i int) error {
		return writeSizing(created[i], sizing("web", requests), sizing("proxy", small))
	})
}

// waitForSizes waits until the table has the size of all scalers.
func waitForSizes(b *testing.B, created []*autoscalingv1beta1.VerticalScaler, requests corev1.ResourceList) {
	b.Helper()
	want := deployments{}
	for _, scaler := range created {
		want[scaler.Spec.DeploymentName] = podSize{"web": {Requests: requests}, "proxy": {Requests: small}}
	}
	require.EventuallyWithT(b, func(c *assert.CollectT) {
		table := testenv.Refresh(c, env, sizeTable(created[0].Namespace))
		assert.True(c, equality.Semantic.DeepEqual(want, table.Deployments), "the table has %d entries", len(table.Deployments))
	}, time.Minute, testenv.Poll)
}

// startQuietManager runs the controller of SizeTables without a log, which would break the lines
// of results.
func startQuietManager(b *testing.B, namespace string) *manager {
	b.Helper()
	return startManager(b, namespace, func(options *ctrl.Options, _ *rest.Config) { options.Logger = logr.Discard() })
}

// waitUntilIdle waits until the manager has had nothing to write for the time between two writes, so
// that the next change is written without delay.
func (m *manager) waitUntilIdle(b *testing.B, namespace string) {
	b.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sizeTable(namespace))}
	idleSince := time.Now()
	require.Eventually(b, func() bool {
		if result, err := m.tables.Reconcile(b.Context(), request); err != nil || result != (ctrl.Result{}) {
			idleSince = time.Now()
		}
		return time.Since(idleSince) > writeInterval
	}, testenv.Timeout, testenv.Poll)
}
