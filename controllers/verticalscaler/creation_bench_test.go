package verticalscaler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/ssa"
	"example.com/upright/internal/testenv"
)

// BenchmarkPodCreation measures how long the API server takes to create a pod that one of the
// namespace's scalers sizes, with and without the admission policy.
func BenchmarkPodCreation(b *testing.B) {
	few, many := 1, testenv.FullOr(1000, 20)
	added := map[int]float64{}
	for _, scalers := range []int{few, testenv.FullOr(100, 5), many} {
		b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
			creation := newPodCreation(b, scalers)
			for range testenv.FullOr(5, 1) {
				creation.measure(b)
			}
			with, without := testenv.Median(creation.with), testenv.Median(creation.without)
			added[scalers] = with - without
			b.ReportMetric(without, "s-without-policy")
			b.ReportMetric(with, "s-with-policy")
			b.ReportMetric(with/without, "ratio")
			b.ReportMetric(0, "ns/op") // Omit it: most of the time is spent installing the policy.
		})
	}
	b.Run("growth", func(b *testing.B) {
		if len(added) != 3 {
			b.Skip("needs the results for all numbers of scalers")
		}
		b.ReportMetric((added[many]-added[few])/float64(many-few), "added-s/scaler")
		b.ReportMetric(0, "ns/op") // Omit it: nothing is timed here.
	})
}

// podCreation creates pods in a namespace, and has the seconds that each creation took.
type podCreation struct {
	namespace     string
	with, without []float64
}

// newPodCreation creates scalers, each with a size for the pods of another Deployment.
func newPodCreation(b *testing.B, scalers int) *podCreation {
	b.Helper()
	p := &podCreation{namespace: env.Namespace(b)}
	testenv.Fill(b, scalers-1, func(i int) error { return p.createScaler(b, fmt.Sprintf("other-%d", i)) })
	// The API server sees the last status only after all others.
	require.NoError(b, p.createScaler(b, "web"))
	b.Cleanup(func() { // Otherwise, the caches of later benchmarks would contain these objects.
		for _, kind := range []client.Object{&autoscalingv1beta1.VerticalScaler{}, &corev1.Pod{}} {
			require.NoError(b, env.Client.DeleteAllOf(context.Background(), kind, client.InNamespace(p.namespace), client.GracePeriodSeconds(0)))
		}
	})
	return p
}

// createScaler creates a scaler with a full status, as the manager writes it. The API server
// takes longer to evaluate a larger status.
func (p *podCreation) createScaler(b *testing.B, deployment string) error {
	scaler := testenv.NewScaler(p.namespace, deployment, deployment)
	if err := env.Client.Create(b.Context(), scaler); err != nil {
		return err
	}
	status := autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: scaler.Generation, DeploymentName: deployment,
		Recommendations: []autoscalingv1beta1.ContainerRecommendation{{
			ContainerName: "web", Target: large, LowerBound: small, UpperBound: huge, UncappedTarget: large, Samples: 1440,
		}},
		PodTarget: large,
		Sizing:    []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)},
	}
	for _, conditionType := range []string{
		autoscalingv1beta1.ConditionReady, autoscalingv1beta1.ConditionTargetFound, autoscalingv1beta1.ConditionConflicted,
		autoscalingv1beta1.ConditionRecommendationReady, autoscalingv1beta1.ConditionApplied,
	} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionTrue, Reason: autoscalingv1beta1.ReasonRecommended,
			Message: "Each container has a recommendation, see status.recommendations.",
		})
	}
	// A copy, because the response is decoded into the same amounts, which all scalers share.
	return ssa.ApplyStatus(b.Context(), env.Client, name, scaler, *status.DeepCopy())
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
