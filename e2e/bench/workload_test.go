package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// What each container uses, all the time.
var (
	steadyCPU    = resource.MustParse("250m")
	steadyMemory = resource.MustParse("300Mi")
)

const (
	// podsEach is the number of pods of a Deployment.
	podsEach = 2
	// learned is how far back a history goes that is made up.
	learned = 14 * 24 * time.Hour
	// timeout bounds the wait until all pods have been measured, or all scalers have a recommendation.
	timeout = 5 * time.Minute
)

// createScaled creates Deployments of pods with a steady usage, each with its
// VerticalScaler, and returns when the usage of all pods has been measured.
func (u *upright) createScaled(b *testing.B, count int) {
	b.Helper()
	var objects []client.Object
	for i := range count {
		name := fmt.Sprintf("web-%d", i)
		scaler := &autoscalingv1beta1.VerticalScaler{Spec: autoscalingv1beta1.VerticalScalerSpec{DeploymentName: name}}
		scaler.Namespace, scaler.Name = namespace, name
		objects = append(objects, steadyDeployment(name), scaler)
	}
	u.create(b, objects)
	config, err := u.cluster.Config()
	require.NoError(b, err)
	metrics, err := versioned.NewForConfig(config)
	require.NoError(b, err)
	// What has been measured can be listed and not watched.
	require.NoError(b, wait.PollUntilContextTimeout(b.Context(), time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		measured, err := metrics.MetricsV1beta1().PodMetricses(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(measured.Items) == count*podsEach, nil
	}), "until metrics-server has measured all pods")
}

func steadyDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](podsEach),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"kwok.x-k8s.io/usage-cpu": steadyCPU.String(), "kwok.x-k8s.io/usage-memory": steadyMemory.String(),
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{anyContainer()}},
			},
		},
	}
}

// waitScalers waits until so many scalers have a recommendation from samples of at
// least that span.
func (u *upright) waitScalers(b *testing.B, count int, atLeast time.Duration) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), timeout)
	defer stop()
	recommended := map[string]bool{}
	look := func(scaler *autoscalingv1beta1.VerticalScaler) {
		if said := scaler.Status.Recommendations; len(said) > 0 && said[0].Span.Duration >= atLeast {
			recommended[scaler.Name] = true
		}
	}
	var scalers autoscalingv1beta1.VerticalScalerList
	require.NoError(b, u.client.List(ctx, &scalers, client.InNamespace(namespace)))
	for i := range scalers.Items {
		look(&scalers.Items[i])
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, scalers.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return u.client.Watch(ctx, &scalers, &client.ListOptions{Namespace: namespace, Raw: &options})
		},
	})
	require.NoError(b, err)
	defer events.Stop()
	for len(recommended) < count {
		event, open := <-events.ResultChan()
		require.True(b, open, "the watch ended with %d of %d recommended", len(recommended), count)
		scaler, isScaler := event.Object.(*autoscalingv1beta1.VerticalScaler)
		require.True(b, isScaler, "the watch has a gap: %v", apierrors.FromObject(event.Object))
		look(scaler)
	}
}

// ageHistories puts histories of weeks into the checkpoints, while no manager runs
// that would write them again.
func (u *upright) ageHistories(b *testing.B, count int) {
	b.Helper()
	var checkpoints autoscalingv1beta1.VerticalScalerCheckpointList
	require.NoError(b, u.client.List(b.Context(), &checkpoints, client.InNamespace(namespace)))
	require.Len(b, checkpoints.Items, count)
	history := steadyHistory(b, time.Now())
	objects := make([]client.Object, count)
	for i := range objects {
		checkpoint := &checkpoints.Items[i]
		require.Len(b, checkpoint.Data.Containers, 1)
		checkpoint.Data.Containers[0].History = history
		objects[i] = checkpoint
	}
	each(b, objects, func(object client.Object) error { return u.client.Update(b.Context(), object) })
}

// steadyHistory returns the checkpoint of a container's history, had its usage been
// measured once a minute until now.
func steadyHistory(b *testing.B, now time.Time) []byte {
	b.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for at := now.Add(-learned); at.Before(now); at = at.Add(time.Minute) {
		for range podsEach {
			require.NoError(b, history.AddCPU(at, steadyCPU.AsApproximateFloat64()))
			require.NoError(b, history.AddMemory(at, steadyMemory.Value()))
		}
	}
	return history.Checkpoint()
}
