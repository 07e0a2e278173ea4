package controllers

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/recommender"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/usage"
)

const (
	mebi = 1 << 20
	// requestedMemory is what each container of newPod requests.
	requestedMemory = 256 * mebi
	// templateHash is that of the pod template of every Deployment, unless a test says otherwise.
	templateHash = "5d8f7c9b6d"
)

// meter is a source of usage that says what it is told to.
type meter struct {
	mutex   sync.Mutex
	samples []usage.Sample
	err     error
	reads   int
}

// Read returns the samples, or the error.
func (m *meter) Read(context.Context) ([]usage.Sample, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.reads++
	return slices.Clone(m.samples), m.err
}

// show has the meter say samples from now on.
func (m *meter) show(samples ...usage.Sample) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.samples, m.err = samples, nil
}

// fail has the meter fail from now on.
func (m *meter) fail(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.err = err
}

func (m *meter) count() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.reads
}

// settle waits until what the meter says now has been learned: a reading that began after this
// has ended when the one after it begins.
func (m *meter) settle(t *testing.T) {
	t.Helper()
	before := m.count()
	require.Eventually(t, func() bool { return m.count() >= before+2 }, soon, often)
}

// newPod returns a pod with containers of the given names, as Kubernetes makes it for a Deployment.
func newPod(namespace, deployment, suffix string, containers ...string) *corev1.Pod {
	replicaSet := deployment + "-" + templateHash
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: replicaSet + "-" + suffix,
		Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: templateHash, "app": deployment},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: "of-the-replicaset", Controller: new(true),
		}},
	}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, newContainer(name))
	}
	return pod
}

func newContainer(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "web:1", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "256Mi")}}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// measured creates a Deployment with a scaler of the same name and a pod.
func measured(t *testing.T, namespace, name string, containers ...string) (*autoscalingv1beta1.VerticalScaler, *corev1.Pod) {
	t.Helper()
	create(t, foreign(namespace, name))
	pod := create(t, newPod(namespace, name, "aaaaa", containers...))
	return create(t, newScaler(namespace, name, name)), pod
}

// uses returns samples of a container that uses the same all the time, a minute apart up to
// now; such as are older than ten minutes are too old to be read.
func uses(pod *corev1.Pod, container string, cores float64, mebibytes int64, count int) []usage.Sample {
	var samples []usage.Sample
	now := time.Now()
	for i := range count {
		samples = append(samples, usage.Sample{
			Pod: client.ObjectKeyFromObject(pod), Container: container, Window: 15 * time.Second,
			Time: now.Add(-time.Duration(count-1-i) * time.Minute),
			CPU:  cores, Memory: mebibytes * mebi,
		})
	}
	return samples
}

// later returns samples as of after a restart: a manager that has restarted takes one of the
// same second as the newest that was saved for that one.
func later(samples []usage.Sample) []usage.Sample {
	for i := range samples {
		samples[i].Time = samples[i].Time.Add(2 * time.Second)
	}
	return samples
}

// historyOf returns what there is to learn of a container from samples.
func historyOf(t *testing.T, container string, samples ...usage.Sample) *recommender.History {
	t.Helper()
	history := recommender.New(recommender.DefaultHalfLife)
	for _, sample := range samples {
		if sample.Container == container {
			require.NoError(t, history.AddCPU(sample.Time, sample.CPU))
			require.NoError(t, history.AddMemory(sample.Time, sample.Memory))
		}
	}
	return history
}

// recommendation returns what status says of a history by a policy.
func recommendation(
	container string, history *recommender.History, policy recommender.Policy,
) autoscalingv1beta1.ContainerRecommendation {
	return sizing.ContainerRecommendation(container, history.Recommend(policy))
}

// figures returns what status says of a history where nothing but the pod minimum caps it.
func figures(container string, history *recommender.History, containers int) autoscalingv1beta1.ContainerRecommendation {
	return recommendation(container, history, recommender.DefaultPolicy(containers))
}

// figuresOf returns what status says of the containers that have samples.
func figuresOf(t *testing.T, samples []usage.Sample, containers ...string) []autoscalingv1beta1.ContainerRecommendation {
	t.Helper()
	var all []autoscalingv1beta1.ContainerRecommendation
	for _, container := range containers {
		all = append(all, figures(container, historyOf(t, container, samples...), len(containers)))
	}
	return all
}

// recommends waits until a scaler has targets. Its bounds, and the number and the span of the
// samples, are those of when they were last news.
func recommends(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler, want ...autoscalingv1beta1.ContainerRecommendation) {
	t.Helper()
	targets := func(all []autoscalingv1beta1.ContainerRecommendation) []autoscalingv1beta1.ContainerRecommendation {
		all = slices.Clone(all)
		for i := range all {
			all[i].LowerBound, all[i].UpperBound, all[i].Samples, all[i].Span = nil, nil, 0, metav1.Duration{}
		}
		return all
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assertSame(c, targets(want), targets(refresh(c, scaler).Status.Recommendations))
	}, soon, often)
}

// assertSame asserts that two things mean the same in the API.
func assertSame(t require.TestingT, want, got any) {
	wanted, err := json.Marshal(want)
	require.NoError(t, err)
	gotten, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, string(wanted), string(gotten))
}

// keepsRecommending asserts that a scaler's recommendation stays as it is for a while.
func keepsRecommending(t *testing.T, scaler *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	before := refresh(t, scaler).Status.Recommendations
	require.NotEmpty(t, before)
	looked := scaler.DeepCopy() // The last look may outlast the wait.
	assert.Never(t, func() bool {
		return !equality.Semantic.DeepEqual(before, refresh(t, looked).Status.Recommendations)
	}, aWhile, often)
}
