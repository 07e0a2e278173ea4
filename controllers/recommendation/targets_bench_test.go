package controllers

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
	"example.com/upright/internal/usage"
)

const (
	// podsEach is the number of pods of a Deployment, each with one container.
	podsEach = 2
	// What a container uses, all the time, in cores and bytes.
	steadyCPU    = 0.25
	steadyMemory = 300 << 20
	// learnedBefore is how far back the checkpoints go.
	learnedBefore   = 14 * 24 * time.Hour
	steadyContainer = "web"
)

// createTargets creates scalers in a namespace, each with a Deployment, its pods and a
// checkpoint, and returns a sample of each pod. What is recommended is not applied.
func createTargets(b *testing.B, namespace string, scalers int) []usage.Sample {
	b.Helper()
	history := steadyHistory(b, time.Now())
	samples := make([]usage.Sample, scalers*podsEach)
	nameOf := func(i int) string { return fmt.Sprintf("web-%d", i) }
	fill(b, scalers, func(i int) error {
		objects := []client.Object{releaseDeployment(namespace, nameOf(i))}
		for n := range podsEach {
			pod := steadyPod(namespace, nameOf(i), n)
			objects = append(objects, pod)
			samples[i*podsEach+n] = usage.Sample{
				Pod: types.NamespacedName{Namespace: namespace, Name: pod.Name}, Container: steadyContainer,
				CPU: steadyCPU, Memory: steadyMemory, Window: time.Minute,
			}
		}
		return createAll(b, objects...)
	})
	// Now, since the API server looks at all scalers of a namespace whenever it creates a pod.
	fill(b, scalers, func(i int) error {
		scaler := newScaler(namespace, nameOf(i), nameOf(i))
		scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff
		if err := createAll(b, scaler); err != nil {
			return err
		}
		return createAll(b, checkpointOf(scaler, history))
	})
	// A source gives its samples in any order.
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
			Name: steadyContainer, Image: "example.com/web:1", Resources: resources("100m", "128Mi", "1", "512Mi"),
		}}},
	}
}

// steadyHistory returns the checkpoint of a container's history, had its usage been measured
// once a minute until now.
func steadyHistory(b *testing.B, now time.Time) []byte {
	b.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for at := now.Add(-learnedBefore); at.Before(now); at = at.Add(time.Minute) {
		for range podsEach {
			require.NoError(b, history.AddCPU(at, steadyCPU))
			require.NoError(b, history.AddMemory(at, steadyMemory))
		}
	}
	return history.Checkpoint()
}

// checkpointOf returns a scaler's checkpoint with the history of its target's container.
func checkpointOf(scaler *autoscalingv1beta1.VerticalScaler, history []byte) *autoscalingv1beta1.VerticalScalerCheckpoint {
	owner := metav1.NewControllerRef(scaler, autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler"))
	return &autoscalingv1beta1.VerticalScalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: scaler.Namespace, Name: scaler.Name, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Data: autoscalingv1beta1.VerticalScalerCheckpointData{
			DeploymentName: scaler.Spec.DeploymentName,
			Containers:     []autoscalingv1beta1.ContainerCheckpoint{{ContainerName: steadyContainer, History: history}},
		},
	}
}

// steadySource is a source of usage that always says the same, measured anew. It makes whoever
// reads wait until it is time for a cycle.
type steadySource struct {
	samples, read []usage.Sample
	asked, given  chan struct{}
	ended         chan struct{} // Closed when nothing is given any more.
}

func newSteadySource(samples []usage.Sample) *steadySource {
	return &steadySource{
		samples: samples, read: make([]usage.Sample, len(samples)),
		asked: make(chan struct{}), given: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Read returns the samples when the benchmark has a cycle begin. It allocates nothing.
func (s *steadySource) Read(context.Context) ([]usage.Sample, error) {
	if !s.ask() || !s.wait() {
		return nil, nil
	}
	copy(s.read, s.samples)
	now := time.Now()
	for i := range s.read {
		s.read[i].Time = now
	}
	return s.read, nil
}

// cycle has a cycle begin, once Read is waiting for it, and returns when it has ended.
func (s *steadySource) cycle() {
	s.given <- struct{}{}
	<-s.asked
}

func (s *steadySource) ask() bool {
	select {
	case s.asked <- struct{}{}:
		return true
	case <-s.ended:
		return false
	}
}

func (s *steadySource) wait() bool {
	select {
	case <-s.given:
		return true
	case <-s.ended:
		return false
	}
}
