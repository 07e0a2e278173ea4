package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
)

// The constant usage of each container.
var (
	steadyCPU    = resource.MustParse("250m")
	steadyMemory = resource.MustParse("300Mi")
)

const (
	// podsEach is the number of pods of a Deployment.
	podsEach = 2
	// historySpan is the length of the prepared histories.
	historySpan = 14 * 24 * time.Hour
)

// createScaled creates Deployments with a steady usage. When metrics-server has measured all their
// pods, it creates a VerticalScaler with the spec for each. It does so last, because the API server
// creates pods more slowly if there are many VerticalScalers in their namespace.
func (u *upright) createScaled(
	b *testing.B, count int, requests corev1.ResourceList, spec autoscalingv1beta1.VerticalScalerSpec,
) {
	b.Helper()
	var deployments, scalers []client.Object
	for i := range count {
		name := fmt.Sprintf("web-%d", i)
		scaler := &autoscalingv1beta1.VerticalScaler{Spec: *spec.DeepCopy()}
		scaler.Namespace, scaler.Name, scaler.Spec.DeploymentName = namespace, name, name
		deployments, scalers = append(deployments, steadyDeployment(name, requests)), append(scalers, scaler)
	}
	u.create(b, deployments)
	config, err := u.cluster.Config()
	require.NoError(b, err)
	metrics, err := versioned.NewForConfig(config)
	require.NoError(b, err)
	// The metrics API has no watch.
	require.NoError(b, wait.PollUntilContextTimeout(b.Context(), time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		podMetrics, err := metrics.MetricsV1beta1().PodMetricses(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(podMetrics.Items) == count*podsEach, nil
	}), "waiting until metrics-server has measured all pods")
	u.create(b, scalers)
}

func steadyDeployment(name string, requests corev1.ResourceList) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	container := anyContainer()
	container.Resources.Requests = requests
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](podsEach),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"kwok.x-k8s.io/usage-cpu": steadyCPU.String(), "kwok.x-k8s.io/usage-memory": steadyMemory.String(),
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
	}
}

// waitScalers waits until count scalers have recommendations from samples of at least that span.
func (u *upright) waitScalers(b *testing.B, count int, atLeast time.Duration) {
	b.Helper()
	recommended := map[string]bool{}
	scalers := newFollower(b, u.client)
	scalers.follow(b, &autoscalingv1beta1.VerticalScalerList{}, func(object runtime.Object) {
		if scaler, isScaler := object.(*autoscalingv1beta1.VerticalScaler); isScaler {
			recommendations := scaler.Status.Recommendations
			recommended[scaler.Name] = len(recommendations) > 0 && recommendations[0].Span.Duration >= atLeast
		}
	})
	scalers.wait(b, func() bool { return all(recommended, count) })
	scalers.end(b)
}

// all reports whether there are count values and all are true.
func all(values map[string]bool, count int) bool {
	return len(values) == count && !slices.Contains(slices.Collect(maps.Values(values)), false)
}

// ageHistories puts histories of two weeks into the checkpoints. No manager may run meanwhile: it
// would overwrite them.
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

// steadyHistory returns the checkpoint of a container's history, with one measurement per minute
// until now.
func steadyHistory(b *testing.B, now time.Time) []byte {
	b.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for at := now.Add(-historySpan); at.Before(now); at = at.Add(time.Minute) {
		for range podsEach {
			require.NoError(b, history.AddCPU(at, steadyCPU.AsApproximateFloat64()))
			require.NoError(b, history.AddMemory(at, steadyMemory.Value()))
		}
	}
	return history.Checkpoint()
}
