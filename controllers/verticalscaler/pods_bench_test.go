package verticalscaler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
	"example.com/upright/mappers"
)

// BenchmarkReconcileOfManyPods measures a reconcile that has nothing to do: all pods of a
// Deployment have their size. It reads the manager's cache, from observe to publish.
func BenchmarkReconcileOfManyPods(b *testing.B) {
	count := testenv.FullOr(5000, 50)
	b.Run(fmt.Sprintf("pods=%d", count), func(b *testing.B) {
		namespace := env.Namespace(b)
		var meter testenv.Meter
		request := createSizedPods(b, namespace, count, &meter)
		reconciler := startReconciler(b, namespace, &meter)
		waitForSized(b, request)
		_, err := reconciler.Reconcile(b.Context(), request) // The first one reads the Deployment.
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			_, err := reconciler.Reconcile(b.Context(), request)
			require.NoError(b, err)
		}
	})
}

// startReconciler starts a manager for a namespace, and returns another reconciler with the same
// client, which no controller calls.
func startReconciler(b *testing.B, namespace string, meter *testenv.Meter) *Reconciler {
	b.Helper()
	var reconciler *Reconciler
	setup := func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
		recommender, options, err := addDependencies(ctx, mgr, registry, namespace, meter)
		if err != nil {
			return err
		}
		failures, err := mappers.NewFailures(registry)
		if err != nil {
			return err
		}
		if err := AddToManager(ctx, mgr, mappers.New(mgr.GetCache(), failures), recommender, options); err != nil {
			return err
		}
		options.Metrics = prometheus.NewRegistry()
		reconciler, err = newReconciler(ctx, mgr, recommender, options)
		return err
	}
	manager := env.StartManager(b, []string{namespace}, setup)
	b.Cleanup(manager.Stop)
	return reconciler
}

// createSizedPods creates a Deployment "web" with running pods of three containers that have the
// size of the scaler "web", and returns the request to reconcile it.
func createSizedPods(b *testing.B, namespace string, count int, meter *testenv.Meter) ctrl.Request {
	b.Helper()
	containers := []corev1.Container{newContainer("web", large, large), newContainer("log", large, nil), newContainer("proxy", large, huge)}
	d := testenv.NewDeployment(namespace, "web")
	d.Spec.Replicas = new(int32(count))
	d.Spec.Template.Spec.Containers = containers
	testenv.Create(b, env, d)
	testenv.MarkAvailable(b, env, d)
	newPod := func(i int) *corev1.Pod {
		pod := testenv.NewPod(namespace, "web", fmt.Sprintf("p%d", i))
		pod.Spec.Containers = containers
		return pod
	}
	testenv.Fill(b, count, func(i int) error {
		pod := newPod(i)
		if err := env.Client.Create(b.Context(), pod); err != nil {
			return err
		}
		testenv.RunPod(b, env, pod)
		return nil
	})
	var samples []usage.Sample
	for _, container := range containers {
		samples = append(samples, testenv.SteadyUsage(newPod(0), container.Name, 0.2, 300, 1)...)
	}
	meter.Set(samples...)
	scaler := testenv.NewScaler(namespace, "web", "web")
	scaler.Spec.Behavior = immediateBehavior()
	scaler.Spec.ContainerPolicies = fixedPolicies(large)
	testenv.Create(b, env, scaler)
	b.Cleanup(func() { // Otherwise, the caches of later benchmarks would contain these objects.
		require.NoError(b, env.Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0)))
	})
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(scaler)}
}

// waitForSized waits until the scaler of a request reports that all pods have their size.
func waitForSized(b *testing.B, request ctrl.Request) {
	b.Helper()
	scaler := testenv.NewScaler(request.Namespace, request.Name, "web")
	require.EventuallyWithT(b, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, env, scaler).Status.Conditions, "Applied", isTrue, "Sized")
	}, time.Minute, testenv.Poll)
}
