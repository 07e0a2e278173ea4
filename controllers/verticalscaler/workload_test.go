package verticalscaler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/internal/ssa"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
)

// Sizes of containers. A workload's scaler recommends large. Medium is just above the recommendation
// for the usage.
var (
	small  = testenv.Amounts("100m", "256Mi")
	medium = testenv.Amounts("250m", "512Mi")
	large  = testenv.Amounts("500m", "1Gi")
	huge   = testenv.Amounts("1", "2Gi")
)

// workload is a Deployment "web" with running pods and a VerticalScaler "web", in its own
// namespace.
type workload struct {
	env       *testenv.Environment
	namespace string
	scaler    *autoscalingv1beta1.VerticalScaler
	pods      []*corev1.Pod
	meter     testenv.Meter
	writes    testenv.Writes
	manager   *testenv.Manager
}

// newWorkload creates a workload. Its scaler gives each container the size large immediately.
// The changes apply to the scaler and the pods before they are created.
func newWorkload(t *testing.T, pods int, containers []corev1.Container, changes ...func(*workload)) *workload {
	t.Helper()
	return newWorkloadIn(t, env, pods, containers, changes...)
}

// newWorkloadIn creates a workload in an environment.
func newWorkloadIn(
	t *testing.T, environment *testenv.Environment, pods int, containers []corev1.Container, changes ...func(*workload),
) *workload {
	t.Helper()
	w := &workload{env: environment, namespace: environment.Namespace(t)}
	d := testenv.NewDeployment(w.namespace, "web")
	d.Spec.Replicas = new(int32(pods))
	d.Spec.Template.Spec.Containers = containers
	for i := range pods {
		pod := testenv.NewPod(w.namespace, "web", fmt.Sprintf("aaaa%d", i))
		pod.Spec.Containers = slices.Clone(containers)
		w.pods = append(w.pods, pod)
	}
	w.scaler = testenv.NewScaler(w.namespace, "web", "web")
	w.scaler.Spec.Behavior = immediateBehavior()
	w.scaler.Spec.ContainerPolicies = fixedPolicies(large)
	for _, change := range changes {
		change(w)
	}
	testenv.Create(t, w.env, d)
	var samples []usage.Sample
	for _, pod := range w.pods {
		testenv.Create(t, w.env, pod)
		testenv.RunPod(t, w.env, pod)
		for i := range pod.Spec.Containers {
			samples = append(samples, testenv.SteadyUsage(pod, pod.Spec.Containers[i].Name, 0.2, 300, 1)...)
		}
	}
	w.meter.Set(samples...)
	testenv.Create(t, w.env, w.scaler)
	return w
}

// newContainer returns a container with requests and limits.
func newContainer(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Image: "web:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// newSizing returns an entry of status.sizing.
func newSizing(container string, requests, limits corev1.ResourceList) autoscalingv1beta1.ContainerSizing {
	return autoscalingv1beta1.ContainerSizing{ContainerName: container, Requests: requests, Limits: limits}
}

// only returns a list with one resource of another list.
func only(name corev1.ResourceName, of corev1.ResourceList) corev1.ResourceList {
	return corev1.ResourceList{name: of[name]}
}

// immediateBehavior resizes running pods and starts rollouts without delay.
func immediateBehavior() *autoscalingv1beta1.Behavior {
	rules := &autoscalingv1beta1.ScalingRules{StabilizationWindowSeconds: new(int32(0))}
	return &autoscalingv1beta1.Behavior{
		ScaleUp:   rules,
		ScaleDown: &autoscalingv1beta1.ScaleDownRules{ScalingRules: *rules.DeepCopy(), MinimumHistorySeconds: new(int32(0))},
		Rollout:   &autoscalingv1beta1.RolloutRules{CooldownSeconds: new(int32(0)), MinimumHistorySeconds: new(int32(0))},
	}
}

// fixedPolicies returns policies that recommend the same size for each container of a workload. They
// set maxAllowed only below the recommendation for the usage, because it bounds limits too.
func fixedPolicies(size corev1.ResourceList) []autoscalingv1beta1.ContainerPolicy {
	lower := &autoscalingv1beta1.ResourceAmounts{CPU: new(size.Cpu().DeepCopy()), Memory: new(size.Memory().DeepCopy())}
	upper := &autoscalingv1beta1.ResourceAmounts{}
	if size.Cpu().Cmp(*medium.Cpu()) < 0 {
		upper.CPU = lower.CPU
	}
	if size.Memory().Cmp(*medium.Memory()) < 0 {
		upper.Memory = lower.Memory
	}
	return []autoscalingv1beta1.ContainerPolicy{{ContainerName: "*", MinAllowed: lower, MaxAllowed: upper}}
}

// useInitialMode makes the scaler of a workload size only new pods.
func useInitialMode(w *workload) { w.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial }

// useInPlaceMode makes the scaler of a workload resize running pods without rollouts.
func useInPlaceMode(w *workload) { w.scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace }

// start starts a manager for the workload's namespace.
func (w *workload) start(t *testing.T) *workload {
	t.Helper()
	w.manager = startManagerIn(t, w.env, w.namespace, &w.meter, w.writes.Record)
	return w
}

// setSpec changes the spec of the scaler.
func (w *workload) setSpec(t *testing.T, change func(*autoscalingv1beta1.VerticalScalerSpec)) {
	t.Helper()
	testenv.Edit(t, w.env, w.scaler, func(scaler *autoscalingv1beta1.VerticalScaler) { change(&scaler.Spec) })
}

// setPolicies makes the scaler recommend the same size for each container.
func (w *workload) setPolicies(t *testing.T, size corev1.ResourceList) {
	t.Helper()
	w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.ContainerPolicies = fixedPolicies(size) })
}

// setFallback writes a fallback to the scaler's status as the manager does. A fallback with
// another field owner would never be removed.
func (w *workload) setFallback(t *testing.T, fallback *autoscalingv1beta1.Fallback) {
	t.Helper()
	require.NoError(t, ssa.ApplyStatus(t.Context(), w.env.Client, name, w.scaler, autoscalingv1beta1.VerticalScalerStatus{
		ObservedGeneration: w.scaler.Generation, DeploymentName: "web", Fallback: fallback,
	}))
}

// waitForApplied waits until the condition Applied has a status and a reason for the scaler's
// current generation, and returns its message.
func (w *workload) waitForApplied(t *testing.T, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, w.env, w.scaler).Status.Conditions, "Applied", status, reason)
		assert.Equal(c, w.scaler.Generation, w.scaler.Status.ObservedGeneration)
	}, testenv.Timeout, testenv.Poll)
	return testenv.ConditionMessage(w.scaler.Status.Conditions, "Applied")
}

// waitForSizing waits until status.sizing has exactly the given requests and limits.
func (w *workload) waitForSizing(t *testing.T, want ...autoscalingv1beta1.ContainerSizing) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertSameJSON(c, want, withoutTemplateLimits(testenv.Refresh(c, w.env, w.scaler).Status.Sizing))
	}, testenv.Timeout, testenv.Poll)
}

// waitForTable waits until the SizeTable of the namespace has the sizes of the scaler's status.
func (w *workload) waitForTable(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		table, err := sizetable.Get(context.Background(), w.env.Client, w.namespace)
		if assert.NoError(c, err) && assert.NotNil(c, table) {
			testenv.AssertSameJSON(c, sizetable.PodSize(testenv.Refresh(c, w.env, w.scaler).Status.Sizing), table.Deployments["web"])
		}
	}, testenv.Timeout, testenv.Poll)
}

// waitForNoTable waits until the namespace has no SizeTable.
func (w *workload) waitForNoTable(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		table, err := sizetable.Get(context.Background(), w.env.Client, w.namespace)
		assert.NoError(c, err)
		assert.Nil(c, table)
	}, testenv.Timeout, testenv.Poll)
}

// withoutTemplateLimits returns sizes without the limits of the template, which
// TestSizingRecordsTheTemplatesLimits shows.
func withoutTemplateLimits(sizes []autoscalingv1beta1.ContainerSizing) []autoscalingv1beta1.ContainerSizing {
	sizes = slices.Clone(sizes)
	for i := range sizes {
		sizes[i].TemplateLimits = nil
	}
	return sizes
}

// waitForEvent waits until an event with a reason has been recorded once.
func (w *workload) waitForEvent(t *testing.T, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, 1, testenv.EventReasons(c, w.env, w.scaler)[reason])
	}, testenv.Timeout, testenv.Poll)
}

// waitForResources waits until a container of a pod has requests and limits.
func (w *workload) waitForResources(t *testing.T, pod *corev1.Pod, container int, requests, limits corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertSameJSON(c, corev1.ResourceRequirements{Requests: requests, Limits: limits},
			testenv.Refresh(c, w.env, pod).Spec.Containers[container].Resources)
	}, testenv.Timeout, testenv.Poll)
}

// resizes returns how many requests to resize a pod the API server has received.
func (w *workload) resizes() int { return len(w.writes.To("/resize")) }

// assertResizes asserts that the number of resizes is count and stays so.
func (w *workload) assertResizes(t *testing.T, count int) {
	t.Helper()
	w.meter.WaitUntilLearned(t)
	assert.Never(t, func() bool { return w.resizes() > count }, testenv.Quiet, testenv.Poll)
	assert.Equal(t, count, w.resizes())
}

// newPod returns a pod like those that the ReplicaSet of the Deployment creates.
func (w *workload) newPod(containers ...corev1.Container) *corev1.Pod {
	pod := testenv.NewPod(w.namespace, "web", "")
	pod.GenerateName, pod.Name = pod.Name, ""
	pod.Spec.Containers = containers
	return pod
}

// waitForNewPod waits until the first container of a new pod gets requests and limits. The API
// server sees a scaler's status shortly after it was written.
func (w *workload) waitForNewPod(t *testing.T, pod *corev1.Pod, requests, limits corev1.ResourceList) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		created := pod.DeepCopy()
		if assert.NoError(c, w.env.Client.Create(context.Background(), created, client.DryRunAll)) {
			testenv.AssertSameJSON(c, corev1.ResourceRequirements{Requests: requests, Limits: limits}, created.Spec.Containers[0].Resources)
		}
	}, testenv.Timeout, testenv.Poll)
}
