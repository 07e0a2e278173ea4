package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

func newBusybox(namespace, name string) *examplev1alpha1.Busybox {
	return &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestBusyboxCreatesItsDeploymentAndBecomesReadyWithIt(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	busybox := newBusybox(namespace, "box")
	busybox.Spec.Size = ptr.To[int32](2)
	create(t, busybox)

	d := deployment(t, namespace, "box")
	assert.True(t, metav1.IsControlledBy(d, busybox))
	assert.Equal(t, int32(2), *d.Spec.Replicas)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status := refresh(c, busybox).Status
		assertCondition(c, status.Conditions, "Ready", metav1.ConditionFalse, "RolloutInProgress")
		assertCondition(c, status.Conditions, "Progressing", metav1.ConditionTrue, "RolloutInProgress")
	}, soon, often)

	rollOut(t, d)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status := refresh(c, busybox).Status
		assertCondition(c, status.Conditions, "Ready", metav1.ConditionTrue, "AsExpected")
		assertCondition(c, status.Conditions, "Available", metav1.ConditionTrue, "AsExpected")
		assertCondition(c, status.Conditions, "Progressing", metav1.ConditionFalse, "RolloutComplete")
		assertCondition(c, status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
		assert.Equal(c, int32(2), status.AvailableReplicas)
		assert.Equal(c, busybox.Generation, status.ObservedGeneration)
	}, soon, often)
}

func TestBusyboxRepairsDrift(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	create(t, newBusybox(namespace, "box"))
	d := deployment(t, namespace, "box")
	for name, spoil := range map[string]func(){
		"replicas": func() { d.Spec.Replicas = ptr.To[int32](5) },
		"image":    func() { d.Spec.Template.Spec.Containers[0].Image = "other" },
		"labels":   func() { d.Labels = nil },
	} {
		wanted := refresh(t, d).DeepCopy()
		before := wanted.DeepCopy()
		spoil()
		require.NoError(t, env.Client.Update(t.Context(), d), name)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			refresh(c, d)
			assert.Equal(c, before.Spec, d.Spec, name)
			assert.Equal(c, before.Labels, d.Labels, name)
		}, soon, often)
	}
	require.NoError(t, env.Client.Delete(t.Context(), d))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		before := d.UID
		refresh(c, d)
		assert.NotEqual(c, before, d.UID)
	}, soon, often)
}
