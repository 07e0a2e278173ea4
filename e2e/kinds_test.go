package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// kind is one of the kinds that own a Deployment.
type kind struct {
	resource string
	version  string
	name     string
	// newOwner returns an object that owns a Deployment with this name.
	newOwner func(namespace, deployment string, replicas int32) client.Object
}

var kinds = []kind{
	{"busyboxes", "example.com/v1alpha1", "Busybox", func(namespace, deployment string, replicas int32) client.Object {
		return &examplev1alpha1.Busybox{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment},
			Spec:       examplev1alpha1.BusyboxSpec{Size: &replicas},
		}
	}},
	{"memcacheds", "cache.example.com/v1alpha1", "Memcached", func(namespace, deployment string, replicas int32) client.Object {
		return newMemcached(namespace, deployment, replicas)
	}},
	{"foos", "example.com/v1alpha1", "Foo", func(namespace, deployment string, replicas int32) client.Object {
		return newFoo(namespace, deployment, replicas)
	}},
}

// eachKind runs a test for each kind, in parallel.
func eachKind(t *testing.T, test func(t *testing.T, k kind)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

func newMemcached(namespace, name string, replicas int32) *cachev1alpha1.Memcached {
	return &cachev1alpha1.Memcached{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       cachev1alpha1.MemcachedSpec{Size: &replicas},
	}
}

func newFoo(namespace, deployment string, replicas int32) *examplev1alpha1.Foo {
	return &examplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foo-of-" + deployment},
		Spec:       examplev1alpha1.FooSpec{DeploymentName: deployment, Replicas: &replicas},
	}
}

func newScaler(namespace, name, deployment string) *autoscalingv1beta1.VerticalScaler {
	return &autoscalingv1beta1.VerticalScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv1beta1.VerticalScalerSpec{DeploymentName: deployment},
	}
}

// newDeployment returns a Deployment that Upright does not own, with the labels that charts use.
func newDeployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "other", "app.kubernetes.io/instance": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "other", Image: "example.com/other:1"}},
				},
			},
		},
	}
}

// statusOf returns the status of an owner.
func statusOf(t require.TestingT, owner client.Object) examplev1alpha1.DeploymentStatus {
	switch owner := owner.(type) {
	case *examplev1alpha1.Busybox:
		return owner.Status
	case *examplev1alpha1.Foo:
		return owner.Status
	case *cachev1alpha1.Memcached:
		return examplev1alpha1.DeploymentStatus(owner.Status)
	default:
		require.Fail(t, "unknown kind of owner", "%T", owner)
		return examplev1alpha1.DeploymentStatus{}
	}
}

// waitForReady waits until an owner is ready for its current generation.
func waitForReady(t *testing.T, owner client.Object) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		status := statusOf(c, refresh(c, owner))
		requireCondition(c, status.Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
		require.Equal(c, owner.GetGeneration(), status.ObservedGeneration)
	})
}

// waitForDegraded waits until an owner is degraded for this reason, and returns the condition's message.
func waitForDegraded(t *testing.T, owner client.Object, reason string) (message string) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		status := statusOf(c, refresh(c, owner))
		requireCondition(c, status.Conditions, "Ready", metav1.ConditionFalse, reason)
		requireCondition(c, status.Conditions, "Degraded", metav1.ConditionTrue, reason)
		require.Equal(c, owner.GetGeneration(), status.ObservedGeneration)
		for _, condition := range status.Conditions {
			if condition.Type == "Degraded" {
				message = condition.Message
			}
		}
	})
	return message
}

// createReady creates an owner and waits until it is ready.
func createReady(t *testing.T, owner client.Object) {
	t.Helper()
	create(t, owner)
	waitForReady(t, owner)
}
