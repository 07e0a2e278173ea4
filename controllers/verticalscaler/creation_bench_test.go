package verticalscaler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// BenchmarkPodCreation measures how long the API server takes to create a pod that the SizeTable
// of its namespace has a size for, with and without the admission policy.
func BenchmarkPodCreation(b *testing.B) {
	for _, deployments := range []int{1, testenv.FullOr(100, 5), testenv.FullOr(1000, 20), testenv.FullOr(4000, 40)} {
		b.Run(fmt.Sprintf("deployments=%d", deployments), func(b *testing.B) {
			creation := newPodCreation(b, deployments)
			for range testenv.FullOr(5, 1) {
				creation.measure(b)
			}
			with, without := testenv.Median(creation.with), testenv.Median(creation.without)
			b.ReportMetric(without, "s-without-policy")
			b.ReportMetric(with, "s-with-policy")
			b.ReportMetric(with-without, "s-added")
			b.ReportMetric(0, "ns/op") // Omit it: most of the time is spent installing the policy.
		})
	}
}

// podCreation creates pods in a namespace, and has the seconds that each creation took.
type podCreation struct {
	namespace     string
	with, without []float64
}

// newPodCreation creates a table with the size of a Deployment "web" and of others.
func newPodCreation(b *testing.B, deployments int) *podCreation {
	b.Helper()
	p := &podCreation{namespace: env.Namespace(b)}
	table := &autoscalingv1beta1.SizeTable{
		ObjectMeta:  metav1.ObjectMeta{Namespace: p.namespace, Name: autoscalingv1beta1.SizeTableName},
		Deployments: map[string]autoscalingv1beta1.PodSize{},
	}
	for i := range deployments - 1 {
		table.Deployments[fmt.Sprintf("other-%d", i)] = autoscalingv1beta1.PodSize{
			"web": {Requests: large, Limits: huge, TemplateLimits: huge},
		}
	}
	table.Deployments["web"] = autoscalingv1beta1.PodSize{"web": {Requests: large}}
	require.NoError(b, env.Client.Create(b.Context(), table.DeepCopy()))
	b.Cleanup(func() { // Otherwise, the caches of later benchmarks would contain these objects.
		for _, kind := range []client.Object{&autoscalingv1beta1.SizeTable{}, &corev1.Pod{}} {
			require.NoError(b, env.Client.DeleteAllOf(context.Background(), kind, client.InNamespace(p.namespace), client.GracePeriodSeconds(0)))
		}
	})
	return p
}

// measure creates pods without the policy, then with the policy.
func (p *podCreation) measure(b *testing.B) {
	b.Helper()
	installed, err := testenv.AdmissionObjects()
	require.NoError(b, err)
	for _, object := range installed {
		testenv.Delete(b, env, object)
	}
	p.without = append(p.without, p.create(b, small)...)
	require.NoError(b, env.InstallAdmission())
	p.with = append(p.with, p.create(b, large)...)
}

// create waits until new pods get the requests. Then it creates pods and returns the seconds
// that each creation took.
func (p *podCreation) create(b *testing.B, requests corev1.ResourceList) []float64 {
	b.Helper()
	pod := testenv.NewPod(p.namespace, "web", "", "web")
	pod.GenerateName, pod.Name = pod.Name, ""
	require.Eventually(b, func() bool {
		created := pod.DeepCopy()
		return env.Client.Create(b.Context(), created, client.DryRunAll) == nil &&
			equality.Semantic.DeepEqual(created.Spec.Containers[0].Resources.Requests, requests)
	}, testenv.Timeout, testenv.Poll)
	took := make([]float64, testenv.FullOr(20, 5))
	for i := range took {
		created := pod.DeepCopy()
		begin := time.Now()
		require.NoError(b, env.Client.Create(b.Context(), created))
		took[i] = time.Since(begin).Seconds()
		require.True(b, equality.Semantic.DeepEqual(created.Spec.Containers[0].Resources.Requests, requests), "created with %v", created.Spec.Containers[0].Resources)
	}
	return took
}
