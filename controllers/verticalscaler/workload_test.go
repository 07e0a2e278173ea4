package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// admissionObjects returns the policy that sizes new pods, and its binding, as they are installed.
func admissionObjects() ([]client.Object, error) {
	manifest, err := os.ReadFile(filepath.Join(testenv.Root(), "deploy", "admission", "sizing.yaml"))
	if err != nil {
		return nil, err
	}
	var all []client.Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
}

// installAdmission has the API server size new pods, in every namespace whose scalers say so.
func installAdmission(c client.Client) error {
	all, err := admissionObjects()
	for _, obj := range all {
		err = errors.Join(err, c.Create(context.Background(), obj))
	}
	return err
}

// shop is a Deployment with a scaler of its name and pods that run, in a namespace of its own.
type shop struct {
	namespace string
	scaler    *autoscalingv1beta1.VerticalScaler
	pods      []*corev1.Pod
	source    meter
	wrote     writes
	manager   *manager
}

// small is what containers of a shop have, and large and huge are sizes to give them.
var (
	small = amounts("100m", "256Mi")
	large = amounts("500m", "1Gi")
	huge  = amounts("1", "2Gi")
)

// sells returns a container that has requests and limits.
func sells(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Image: "web:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// newShop creates a Deployment "web" with so many running pods of the containers, and a
// scaler that gives all of them the size large, at once. They may be changed before.
func newShop(t *testing.T, pods int, containers []corev1.Container, change ...func(*shop)) *shop {
	t.Helper()
	s := &shop{namespace: env.Namespace(t)}
	d := foreign(s.namespace, "web")
	d.Spec.Replicas = new(int32(pods))
	d.Spec.Template.Spec.Containers = containers
	for i := range pods {
		pod := newPod(s.namespace, "web", fmt.Sprintf("aaaa%d", i))
		pod.Spec.Containers = containers
		s.pods = append(s.pods, pod)
	}
	s.scaler = newScaler(s.namespace, "web", "web")
	s.scaler.Spec.Behavior = atOnce()
	s.scaler.Spec.ContainerPolicies = always(large)
	for _, f := range change {
		f(s)
	}
	create(t, d)
	for i, pod := range s.pods {
		condition := pod.Status.DeepCopy()
		s.pods[i] = create(t, pod)
		runs(t, pod, condition.Conditions...)
		s.source.samples = append(s.source.samples, s.uses(pod)...)
	}
	create(t, s.scaler)
	return s
}

// uses returns a sample of each of a pod's containers.
func (s *shop) uses(pod *corev1.Pod) []usage.Sample {
	var all []usage.Sample
	for i := range pod.Spec.Containers {
		all = append(all, uses(pod, pod.Spec.Containers[i].Name, 0.2, 300, 1)...)
	}
	return all
}

// open starts the manager of the shop's namespace.
func (s *shop) open(t *testing.T) *shop {
	t.Helper()
	s.manager = startManagerWith(t, s.namespace, newOptions(), usageSource{Source: &s.source}, s.wrote.record)
	return s
}

// asks changes what the scaler asks for.
func (s *shop) asks(t *testing.T, change func(*autoscalingv1beta1.VerticalScalerSpec)) {
	t.Helper()
	edit(t, s.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { change(&scaler.Spec) })
}

// resizes returns how many resizes the API server was asked for.
func (s *shop) resizes() int { return len(s.wrote.to("/resize")) }

// applied waits until the scaler's Applied has a reason for its current generation, and
// returns its message.
func (s *shop) applied(t *testing.T, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assertCondition(c, refresh(c, s.scaler).Status.Conditions, "Applied", status, reason)
		assert.Equal(c, s.scaler.Generation, s.scaler.Status.ObservedGeneration)
	}, soon, often)
	return condition(s.scaler.Status, "Applied").Message
}

// sizing waits until the scaler's status has sizes, and no other.
func (s *shop) sizing(t *testing.T, want ...autoscalingv1beta1.ContainerSizing) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assertSame(c, want, refresh(c, s.scaler).Status.Sizing)
	}, soon, often)
}

// size is what status says of a container.
func size(name string, requests, limits corev1.ResourceList) autoscalingv1beta1.ContainerSizing {
	return autoscalingv1beta1.ContainerSizing{ContainerName: name, Requests: requests, Limits: limits}
}

// atOnce is the behavior by which running pods follow as soon as anything is recommended.
func atOnce() *autoscalingv1beta1.Behavior {
	rules := &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: new(int32(0))}
	return &autoscalingv1beta1.Behavior{
		ScaleUp: rules, ScaleDown: rules.DeepCopy(),
		Rollout: &autoscalingv1beta1.RolloutRules{CooldownSeconds: new(int32(0))},
	}
}

// always returns policies by which every container is recommended the same, whatever it uses.
func always(size corev1.ResourceList) []autoscalingv1beta1.ContainerPolicy {
	exactly := allowed(size.Cpu().String(), size.Memory().String())
	return []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", MinAllowed: exactly, MaxAllowed: exactly}}
}

// runs writes the status that the kubelet writes of a pod that is ready and has been given
// what its spec says, with more conditions.
func runs(t *testing.T, pod *corev1.Pod, conditions ...corev1.PodCondition) {
	t.Helper()
	refresh(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(slices.Clone(conditions), corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: true, Resources: container.Resources.DeepCopy(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), pod))
}

// has waits until a container of a pod has requests and limits.
func has(t *testing.T, pod *corev1.Pod, container int, requests, limits corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assertSame(c, corev1.ResourceRequirements{Requests: requests, Limits: limits}, refresh(c, pod).Spec.Containers[container].Resources)
	}, soon, often)
}
