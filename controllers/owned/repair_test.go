package owned

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

func TestOwnerCreatesDeploymentAndBecomesReadyWithIt(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))

		d := testenv.WaitForDeployment(t, env, namespace, "web")
		assert.True(t, metav1.IsControlledBy(d, obj))
		assert.Equal(t, int32(2), *d.Spec.Replicas)
		assert.NotEmpty(t, d.Spec.Template.Spec.Containers[0].Resources.Requests)
		assert.NotEmpty(t, d.Spec.Template.Spec.Containers[0].Resources.Limits)
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionTrue, "RolloutInProgress")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")

		testenv.MarkAvailable(t, env, d)
		status = kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		testenv.AssertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "RolloutComplete")
		testenv.AssertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		assert.Equal(t, int32(2), status.Replicas)
		assert.Equal(t, int32(2), status.AvailableReplicas)
		assert.Equal(t, metav1.FormatLabelSelector(d.Spec.Selector), status.Selector)
	})
}

func TestOwnerRestoresFieldsThatItSets(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		testenv.Create(t, env, kind.newObject(namespace, "web"))
		desired := testenv.WaitForDeployment(t, env, namespace, "web")
		for _, test := range []struct {
			name   string
			change func(*appsv1.Deployment)
		}{
			{"replicas", func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 }},
			{"replicas to 0", func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }},
			{"image", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other" }},
			{"security context", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].SecurityContext = nil }},
			{"all labels", func(d *appsv1.Deployment) { d.Labels = nil }},
			{"our label", func(d *appsv1.Deployment) { delete(d.Labels, cache.ManagedByLabel) }},
			{"our label's value", func(d *appsv1.Deployment) { d.Labels[cache.ManagedByLabel] = "Helm" }},
			{"annotations", func(d *appsv1.Deployment) { d.Annotations = nil }},
		} {
			d := desired.DeepCopy()
			testenv.Edit(t, env, d, test.change)
			changed := d.ResourceVersion
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				testenv.Refresh(c, env, d)
				assert.NotEqual(c, changed, d.ResourceVersion)
				assert.Equal(c, desired.Spec, d.Spec)
				assert.Equal(c, desired.Labels, d.Labels)
				assert.Equal(c, desired.Annotations, d.Annotations)
			}, testenv.Timeout, testenv.Poll, test.name)
			assert.Equal(t, desired.UID, d.UID, test.name)
		}
	})
}

func TestOwnerKeepsFieldsThatItDoesNotSet(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		testenv.Edit(t, env, d, func(d *appsv1.Deployment) {
			d.Labels["team"] = "web"
			d.Annotations["note"] = "mine"
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
			*d.Spec.Replicas = 5 // When this is restored, the other changes have been reconciled too.
		})
		waitForReplicas(t, d, 2)
		kind.setSize(t, obj, 3)
		waitForReplicas(t, d, 3)
		assert.Equal(t, "web", d.Labels["team"])
		assert.Equal(t, "mine", d.Annotations["note"])
		assert.Contains(t, d.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt")
	})
}

func TestOwnerRecreatesDeletedDeployment(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		before := d.UID
		testenv.Delete(t, env, d)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NotEqual(c, before, testenv.Refresh(c, env, d).UID)
			assert.True(c, metav1.IsControlledBy(d, obj))
		}, testenv.Timeout, testenv.Poll)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

func TestOwnerWaitsUntilTerminatingDeploymentIsGone(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		before := d.UID
		// The test environment runs no garbage collector, so the finalizer stays until the test
		// removes it.
		require.NoError(t, env.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentTerminating")
		terminating := testenv.Refresh(t, env, d).DeepCopy()
		kind.setSize(t, obj, 3)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "DeploymentTerminating")
		assert.Equal(t, terminating, testenv.Refresh(t, env, d), "a terminating Deployment is not written")
		testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Finalizers = nil })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NotEqual(c, before, testenv.Refresh(c, env, d).UID)
			assert.Equal(c, int32(3), *d.Spec.Replicas)
		}, testenv.Timeout, testenv.Poll)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}

func TestOwnerRemovesFieldThatIsNoLongerDesired(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		require.Contains(t, d.Spec.Template.Spec.Containers[0].Resources.Limits, corev1.ResourceCPU)
		testenv.Edit(t, env, obj, func(obj client.Object) { kind.resources(obj).Limits.CPU = nil })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			limits := testenv.Refresh(c, env, d).Spec.Template.Spec.Containers[0].Resources.Limits
			assert.NotContains(c, limits, corev1.ResourceCPU)
			assert.Contains(c, limits, corev1.ResourceMemory)
		}, testenv.Timeout, testenv.Poll)
	})
}

func TestOwnerFollowsItsScaleSubresource(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		scale := &autoscalingv1.Scale{}
		subresource := env.Client.SubResource("scale")
		require.NoError(t, subresource.Get(t.Context(), obj, scale))
		assert.Equal(t, int32(2), scale.Spec.Replicas)
		assert.Equal(t, int32(2), scale.Status.Replicas)
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		assert.Equal(t, metav1.FormatLabelSelector(d.Spec.Selector), scale.Status.Selector)

		scale.Spec.Replicas = 3
		require.NoError(t, subresource.Update(t.Context(), obj, client.WithSubResourceBody(scale)))
		waitForReplicas(t, d, 3)
		kind.waitForReady(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		testenv.MarkAvailable(t, env, d)
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, subresource.Get(context.Background(), obj, scale))
			assert.Equal(c, int32(3), scale.Status.Replicas)
		}, testenv.Timeout, testenv.Poll)
	})
}

func TestOwnerScalesToItsMinimumAndBack(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		minimum := int32(0)
		if kind.name == memcachedKind.name {
			minimum = 1
		}
		startManager(t, namespace)
		obj := kind.createReady(t, namespace, "web")
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		for _, size := range []int32{minimum, minimum + 1} {
			kind.setSize(t, obj, size)
			waitForReplicas(t, d, size)
			testenv.MarkAvailable(t, env, d)
			status := kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
			assert.Equal(t, size, status.Replicas)
			assert.Equal(t, size, status.AvailableReplicas)
		}
	})
}

// TestTerminatingOwnerWritesNothing shows that a terminating owner does not re-create the
// Deployment that the garbage collector deletes.
func TestTerminatingOwnerWritesNothing(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		removeFinalizer := testenv.AddFinalizer(t, env, obj)
		r := kind.reconcilerOf(obj, newDirectClient(t, interceptor.Funcs{}))
		r.mustReconcile(t)
		d := testenv.WaitForDeployment(t, env, namespace, "web")
		testenv.Delete(t, env, obj)
		testenv.Delete(t, env, d)
		before := testenv.Refresh(t, env, obj).GetResourceVersion()
		r.mustReconcile(t)
		testenv.WaitUntilDeleted(t, env, d)
		assert.Equal(t, before, testenv.Refresh(t, env, obj).GetResourceVersion())

		removeFinalizer()
		testenv.WaitUntilDeleted(t, env, obj)
		r.mustReconcile(t) // The owner does not exist.
		testenv.WaitUntilDeleted(t, env, d)
	})
}
