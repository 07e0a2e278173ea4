package controllers

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
)

// BenchmarkPodCreation measures how long the API server takes to create a pod that one of the
// scalers of its namespace sizes, and how long without the admission policy.
func BenchmarkPodCreation(b *testing.B) {
	few, many := 1, fullOr(1000, 20)
	added := map[int]float64{}
	for _, scalers := range []int{few, fullOr(100, 5), many} {
		b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
			creation := newPodCreation(b, scalers)
			for range fullOr(5, 1) {
				creation.measure(b)
			}
			with, without := median(creation.with), median(creation.without)
			added[scalers] = with - without
			b.ReportMetric(without, "s-without-policy")
			b.ReportMetric(with, "s-with-policy")
			b.ReportMetric(with/without, "ratio")
			b.ReportMetric(0, "ns/op") // Most of the time is spent installing the policy.
		})
	}
	b.Run("growth", func(b *testing.B) {
		if len(added) != 3 {
			b.Skip("all numbers of scalers must be measured")
		}
		b.ReportMetric((added[many]-added[few])/float64(many-few), "added-s/scaler")
		b.ReportMetric(0, "ns/op") // There is nothing left to time.
	})
}

// podCreation is a namespace in which pods are created, and how many seconds each of them took.
type podCreation struct {
	namespace     string
	with, without []float64
}

// newPodCreation creates scalers, each with a size for the pods of another Deployment.
func newPodCreation(b *testing.B, scalers int) *podCreation {
	b.Helper()
	p := &podCreation{namespace: env.Namespace(b)}
	fill(b, scalers-1, func(i int) error { return p.createScaler(b, fmt.Sprintf("other-%d", i)) })
	// When the API server sees the status that was written last, it sees them all.
	require.NoError(b, p.createScaler(b, "web"))
	b.Cleanup(func() { // What is left would be in the caches of the benchmarks that follow.
		for _, kind := range []client.Object{&autoscalingv1beta1.VerticalScaler{}, &corev1.Pod{}} {
			require.NoError(b, env.Client.DeleteAllOf(context.Background(), kind, client.InNamespace(p.namespace), client.GracePeriodSeconds(0)))
		}
	})
	return p
}

// createScaler creates a scaler, and says in its status what the manager would: the larger it
// is, the longer the API server takes to look at it.
func (p *podCreation) createScaler(b *testing.B, deployment string) error {
	scaler := newScaler(p.namespace, deployment, deployment)
	if err := env.Client.Create(b.Context(), scaler); err != nil {
		return err
	}
	status := autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: scaler.Generation, DeploymentName: deployment,
		Recommendations: []autoscalingv1beta1.ContainerRecommendation{{
			ContainerName: "web", Target: large, LowerBound: small, UpperBound: huge, UncappedTarget: large, Samples: 1440,
		}},
		PodTarget: large,
		Sizing:    []autoscalingv1beta1.ContainerSizing{size("web", large, nil)},
	}
	for _, of := range []string{
		autoscalingv1beta1.ConditionReady, autoscalingv1beta1.ConditionTargetFound, autoscalingv1beta1.ConditionConflicted,
		autoscalingv1beta1.ConditionRecommendationReady, autoscalingv1beta1.ConditionApplied,
	} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: of, Status: metav1.ConditionTrue, Reason: autoscalingv1beta1.ReasonRecommended,
			Message: "Each container has a recommendation from its usage, see status.recommendations.",
		})
	}
	// The answer is decoded into what is written.
	return applyStatus(b.Context(), env.Client, "upright-verticalscaler", scaler, *status.DeepCopy())
}

// measure creates pods without the policy and then with it.
func (p *podCreation) measure(b *testing.B) {
	b.Helper()
	policy, err := admissionObjects()
	require.NoError(b, err)
	for _, object := range policy {
		require.NoError(b, env.Client.Delete(b.Context(), object))
	}
	p.without = append(p.without, p.create(b, small)...)
	require.NoError(b, installAdmission(env.Client))
	p.with = append(p.with, p.create(b, large)...)
}

// create waits until pods are born with the requests, and then returns how many seconds it
// takes to create each of some.
func (p *podCreation) create(b *testing.B, requests corev1.ResourceList) []float64 {
	b.Helper()
	pod := newPod(p.namespace, "web", "", "web")
	pod.GenerateName, pod.Name = pod.Name, ""
	require.Eventually(b, func() bool {
		born := pod.DeepCopy()
		return env.Client.Create(b.Context(), born, client.DryRunAll) == nil &&
			equality.Semantic.DeepEqual(born.Spec.Containers[0].Resources.Requests, requests)
	}, soon, often)
	took := make([]float64, fullOr(20, 5))
	for i := range took {
		born := pod.DeepCopy()
		begin := time.Now()
		require.NoError(b, env.Client.Create(b.Context(), born))
		took[i] = time.Since(begin).Seconds()
		require.True(b, equality.Semantic.DeepEqual(born.Spec.Containers[0].Resources.Requests, requests), "born with %v", born.Spec.Containers[0].Resources)
	}
	return took
}
