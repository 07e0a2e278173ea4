package controllers

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
)

func TestOwnersCreateTheirDeploymentAndBecomeReadyWithIt(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))

		d := deployment(t, namespace, "box")
		assert.True(t, metav1.IsControlledBy(d, obj))
		assert.Equal(t, int32(2), *d.Spec.Replicas)
		assert.NotEmpty(t, d.Spec.Template.Spec.Containers[0].Resources.Requests)
		assert.NotEmpty(t, d.Spec.Template.Spec.Containers[0].Resources.Limits)
		status := kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		assertCondition(t, status.Conditions, "Progressing", metav1.ConditionTrue, "RolloutInProgress")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")

		rollOut(t, d)
		status = kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "RolloutComplete")
		assertCondition(t, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		assert.Equal(t, int32(2), status.Replicas)
		assert.Equal(t, int32(2), status.AvailableReplicas)
		assert.Equal(t, metav1.FormatLabelSelector(d.Spec.Selector), status.Selector)
	})
}

func TestOwnersRepairDrift(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		create(t, kind.newObject(namespace, "box"))
		wanted := deployment(t, namespace, "box")
		for _, drift := range []struct {
			name  string
			spoil func(*appsv1.Deployment)
		}{
			{"replicas", func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 }},
			{"replicas to 0", func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }},
			{"image", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other" }},
			{"security context", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].SecurityContext = nil }},
			{"all labels", func(d *appsv1.Deployment) { d.Labels = nil }},
			{"our label", func(d *appsv1.Deployment) { delete(d.Labels, managedByLabel) }},
			{"our label's value", func(d *appsv1.Deployment) { d.Labels[managedByLabel] = "Helm" }},
			{"annotations", func(d *appsv1.Deployment) { d.Annotations = nil }},
		} {
			d := wanted.DeepCopy()
			edit(t, d, drift.spoil)
			spoiled := d.ResourceVersion
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				refresh(c, d)
				assert.NotEqual(c, spoiled, d.ResourceVersion)
				assert.Equal(c, wanted.Spec, d.Spec)
				assert.Equal(c, wanted.Labels, d.Labels)
				assert.Equal(c, wanted.Annotations, d.Annotations)
			}, soon, often, drift.name)
			assert.Equal(t, wanted.UID, d.UID, drift.name)
		}
	})
}

func TestOwnersLeaveAloneWhatTheyDoNotSet(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))
		d := deployment(t, namespace, "box")
		edit(t, d, func(d *appsv1.Deployment) {
			d.Labels["team"] = "web"
			d.Annotations["note"] = "mine"
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
			*d.Spec.Replicas = 5 // The repair of this shows that a pass was made.
		})
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(2), *refresh(c, d).Spec.Replicas)
		}, soon, often)
		kind.resize(t, obj, 3)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(3), *refresh(c, d).Spec.Replicas)
		}, soon, often)
		assert.Equal(t, "web", d.Labels["team"])
		assert.Equal(t, "mine", d.Annotations["note"])
		assert.Contains(t, d.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt")
	})
}

func TestOwnersCreateADeletedDeploymentAnew(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		before := d.UID
		require.NoError(t, env.Client.Delete(t.Context(), d))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NotEqual(c, before, refresh(c, d).UID)
			assert.True(c, metav1.IsControlledBy(d, obj))
		}, soon, often)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

func TestOwnersAwaitTheEndOfADeploymentThatIsBeingDeleted(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		before := d.UID
		// Without a garbage collector the finalizer stays until the test takes it away.
		require.NoError(t, env.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		kind.is(t, obj, metav1.ConditionFalse, "DeploymentTerminating")
		ending := refresh(t, d).DeepCopy()
		kind.resize(t, obj, 3)
		kind.is(t, obj, metav1.ConditionFalse, "DeploymentTerminating")
		assert.Equal(t, ending, refresh(t, d), "not written any more")
		edit(t, d, func(d *appsv1.Deployment) { d.Finalizers = nil })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NotEqual(c, before, refresh(c, d).UID)
			assert.Equal(c, int32(3), *d.Spec.Replicas)
		}, soon, often)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
	})
}

func TestOwnersRemoveAFieldThatIsNoLongerDesired(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))
		d := deployment(t, namespace, "box")
		require.Contains(t, d.Spec.Template.Spec.Containers[0].Resources.Limits, corev1.ResourceCPU)
		edit(t, obj, func(obj client.Object) { delete(kind.resources(obj).Limits, corev1.ResourceCPU) })
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			limits := refresh(c, d).Spec.Template.Spec.Containers[0].Resources.Limits
			assert.NotContains(c, limits, corev1.ResourceCPU)
			assert.Contains(c, limits, corev1.ResourceMemory)
		}, soon, often)
	})
}

func TestOwnersFollowTheirScaleSubresource(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		scale := &autoscalingv1.Scale{}
		subresource := env.Client.SubResource("scale")
		require.NoError(t, subresource.Get(t.Context(), obj, scale))
		assert.Equal(t, int32(2), scale.Spec.Replicas)
		assert.Equal(t, int32(2), scale.Status.Replicas)
		d := deployment(t, namespace, "box")
		assert.Equal(t, metav1.FormatLabelSelector(d.Spec.Selector), scale.Status.Selector)

		scale.Spec.Replicas = 3
		require.NoError(t, subresource.Update(t.Context(), obj, client.WithSubResourceBody(scale)))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, int32(3), *refresh(c, d).Spec.Replicas)
		}, soon, often)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, subresource.Get(context.Background(), obj, scale))
			assert.Equal(c, int32(3), scale.Status.Replicas)
		}, soon, often)
	})
}

func TestOwnersScaleToZeroAndBack(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		if kind.name == "Memcached" { // At least one, says its validation.
			obj := create(t, kind.newObject(namespace, "box"))
			*kind.size(obj) = new(int32(0))
			require.ErrorContains(t, env.Client.Update(t.Context(), obj), "size must be 1, 2 or 3")
			return
		}
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		for _, size := range []int32{0, 1} {
			kind.resize(t, obj, size)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Equal(c, size, *refresh(c, d).Spec.Replicas)
			}, soon, often)
			rollOut(t, d)
			status := kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
			assert.Equal(t, size, status.Replicas)
			assert.Equal(t, size, status.AvailableReplicas)
		}
	})
}

// TestOwnersThatAreBeingDeletedWriteNothing shows that nothing is created anew behind the
// garbage collector's back.
func TestOwnersThatAreBeingDeletedWriteNothing(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := kind.newObject(namespace, "box")
		obj.SetFinalizers([]string{"example.com/hold"})
		create(t, obj)
		passes := kind.passesOver(obj, likeCached(t, interceptor.Funcs{}))
		_, err := passes.pass()
		require.NoError(t, err)
		d := deployment(t, namespace, "box")
		require.NoError(t, env.Client.Delete(t.Context(), obj))
		require.NoError(t, env.Client.Delete(t.Context(), d))
		before := refresh(t, obj).GetResourceVersion()
		_, err = passes.pass()
		require.NoError(t, err)
		gone(t, d)
		assert.Equal(t, before, refresh(t, obj).GetResourceVersion())

		edit(t, obj, func(obj client.Object) { obj.SetFinalizers(nil) })
		gone(t, obj)
		_, err = passes.pass()
		require.NoError(t, err, "an object that is gone")
		gone(t, d)
	})
}
