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
)

// createScaled creates Deployments of pods with a steady usage, and when that of all pods has
// been measured their VerticalScalers, each with the spec: the API server looks at all of a
// namespace whenever it creates a pod.
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
	// What has been measured can be listed and not watched.
	require.NoError(b, wait.PollUntilContextTimeout(b.Context(), time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		measured, err := metrics.MetricsV1beta1().PodMetricses(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(measured.Items) == count*podsEach, nil
	}), "until metrics-server has measured all pods")
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

// waitScalers waits until so many scalers have a recommendation from samples of at
// least that span.
func (u *upright) waitScalers(b *testing.B, count int, atLeast time.Duration) {
	b.Helper()
	recommended := map[string]bool{}
	scalers := newFollower(b, u.client)
	scalers.follow(b, &autoscalingv1beta1.VerticalScalerList{}, func(object runtime.Object) {
		if scaler, isScaler := object.(*autoscalingv1beta1.VerticalScaler); isScaler {
			said := scaler.Status.Recommendations
			recommended[scaler.Name] = len(said) > 0 && said[0].Span.Duration >= atLeast
		}
	})
	scalers.wait(b, func() bool { return all(recommended, count) })
	scalers.end(b)
}

// all reports whether there are so many names, and it is so of each.
func all(is map[string]bool, count int) bool {
	return len(is) == count && !slices.Contains(slices.Collect(maps.Values(is)), false)
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
