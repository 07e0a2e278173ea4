package recommendation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

const (
	// podsPerTarget is the number of pods of a Deployment. Each has one container.
	podsPerTarget   = 2
	steadyContainer = "web"
	// The steady usage of a container in cores and bytes.
	steadyCPU    = 0.25
	steadyMemory = 300 << 20
	// historyLength is the time between the first sample in a checkpoint and the checkpoint.
	historyLength = 14 * 24 * time.Hour
)

// createTargets creates scalers in a namespace, each with a Deployment, its pods and a
// checkpoint, and returns a sample of each pod. The recommendations are not applied.
func createTargets(b *testing.B, namespace string, scalers int) []usage.Sample {
	b.Helper()
	history := steadyHistory(b, time.Now())
	samples := make([]usage.Sample, scalers*podsPerTarget)
	nameOf := func(i int) string { return fmt.Sprintf("web-%d", i) }
	testenv.Fill(b, scalers, func(i int) error {
		objects := []client.Object{testenv.ReleaseDeployment(namespace, nameOf(i))}
		for n := range podsPerTarget {
			pod := steadyPod(namespace, nameOf(i), n)
			objects = append(objects, pod)
			samples[i*podsPerTarget+n] = usage.Sample{
				Pod: types.NamespacedName{Namespace: namespace, Name: pod.Name}, Container: steadyContainer,
				CPU: steadyCPU, Memory: steadyMemory,
			}
		}
		return createAll(b, objects...)
	})
	// The scalers come last: the API server reads all scalers of a namespace when it creates a pod.
	testenv.Fill(b, scalers, func(i int) error {
		scaler := testenv.NewScaler(namespace, nameOf(i), nameOf(i))
		scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
		if err := createAll(b, scaler); err != nil {
			return err
		}
		saved := newCheckpoint(scaler)
		saved.Data.Containers = []autoscalingv1beta1.ContainerCheckpoint{{ContainerName: steadyContainer, History: history}}
		return createAll(b, saved)
	})
	// A source returns its samples in any order.
	rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	return samples
}

func createAll(b *testing.B, objects ...client.Object) error {
	for _, object := range objects {
		if err := env.Client.Create(b.Context(), object); err != nil {
			return err
		}
	}
	return nil
}

// steadyPod returns a pod of a Deployment as its ReplicaSet creates it.
func steadyPod(namespace, deployment string, n int) *corev1.Pod {
	const hash = "6d4cf56db6"
	replicaSet := deployment + "-" + hash
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%05d", replicaSet, n),
			Labels: map[string]string{"app": deployment, appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: types.UID(replicaSet), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: steadyContainer, Image: "example.com/web:1", Resources: testenv.Resources("100m", "128Mi", "1", "512Mi"),
		}}},
	}
}

// steadyHistory returns the checkpoint of a container's history with a sample of each pod per
// minute until now.
func steadyHistory(b *testing.B, now time.Time) []byte {
	b.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for at := now.Add(-historyLength); at.Before(now); at = at.Add(time.Minute) {
		for range podsPerTarget {
			require.NoError(b, history.AddCPU(at, steadyCPU))
			require.NoError(b, history.AddMemory(at, steadyMemory))
		}
	}
	return history.Checkpoint()
}

// steadySource is a source that returns the same usage at the current time. Each reading waits
// until the benchmark starts a cycle.
type steadySource struct {
	samples, result  []usage.Sample
	requested, start chan struct{}
	ended            chan struct{} // Closed when readings no longer wait.
}

func newSteadySource(samples []usage.Sample) *steadySource {
	return &steadySource{
		samples: samples, result: make([]usage.Sample, len(samples)),
		requested: make(chan struct{}), start: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Read returns the samples when the benchmark starts a cycle, also after the deadline of the
// context. It allocates nothing.
func (s *steadySource) Read(context.Context) ([]usage.Sample, error) {
	if !s.request() || !s.wait() {
		return nil, nil
	}
	copy(s.result, s.samples)
	now := time.Now()
	for i := range s.result {
		s.result[i].Time = now
	}
	return s.result, nil
}

// cycle starts a cycle when Read waits for it, and returns when the next reading starts.
func (s *steadySource) cycle() {
	s.start <- struct{}{}
	<-s.requested
}

func (s *steadySource) request() bool {
	select {
	case s.requested <- struct{}{}:
		return true
	case <-s.ended:
		return false
	}
}

func (s *steadySource) wait() bool {
	select {
	case <-s.start:
		return true
	case <-s.ended:
		return false
	}
}
