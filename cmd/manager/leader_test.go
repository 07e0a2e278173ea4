package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

func newBusybox(t *testing.T, namespace, name string) {
	t.Helper()
	require.NoError(t, env.Client.Create(t.Context(), &examplev1alpha1.Busybox{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}))
}

// acted waits until a manager has created a Busybox's Deployment.
func acted(t *testing.T, namespace, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{}))
	}, soon, often)
}

// holder returns who holds the Lease.
func holder(t require.TestingT, namespace string) string {
	var leases coordinationv1.LeaseList
	require.NoError(t, env.Client.List(context.Background(), &leases, client.InNamespace(namespace)))
	if len(leases.Items) != 1 {
		return ""
	}
	assert.Equal(t, "upright-manager", leases.Items[0].Name)
	return ptr.Deref(leases.Items[0].Spec.HolderIdentity, "")
}

func TestManagerWatchesTheGivenNamespacesOnly(t *testing.T) {
	t.Parallel()
	one, two, other := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	newBusybox(t, other, "box")
	p := start(t, "--namespaces="+one+","+two)
	newBusybox(t, one, "box")
	newBusybox(t, two, "box")
	acted(t, one, "box")
	acted(t, two, "box")
	assert.Never(t, func() bool {
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "box"}, &appsv1.Deployment{})
		return !apierrors.IsNotFound(err)
	}, aWhile, often)
	p.stop(t)
}

func TestOfTwoManagersOneActsAndTheOtherTakesOverAtOnceWhenItStops(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	args := []string{"--namespaces=" + namespace, "--leader-elect", "--leader-election-namespace=" + namespace}
	first := start(t, args...)
	newBusybox(t, namespace, "a")
	acted(t, namespace, "a")
	leader := holder(t, namespace)
	require.NotEmpty(t, leader)

	second := start(t, args...)
	address := second.probeAddress(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, _ := get(c, "http://"+address+"/readyz", "")
		assert.Equal(c, 200, code, "the one that waits is ready too")
		assert.NotNil(c, second.logged("Starting EventSource", ""), "it has its caches warm")
	}, soon, often)
	assert.Equal(t, leader, holder(t, namespace))
	assert.Nil(t, second.logged("Starting workers", ""), "and does not act")

	first.stop(t)
	stopped := time.Now()
	newBusybox(t, namespace, "b")
	acted(t, namespace, "b")
	assert.NotEqual(t, leader, holder(t, namespace))
	// Were the Lease not released, it would run out after 15 s.
	assert.Less(t, time.Since(stopped), 12*time.Second)
	second.stop(t)
}

func TestManagerReleasesItsLeaseOnSIGTERM(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	p := start(t, "--namespaces="+namespace, "--leader-elect", "--leader-election-namespace="+namespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NotEmpty(c, holder(c, namespace)) }, soon, often)
	p.stop(t)
	assert.Empty(t, holder(t, namespace))
}
