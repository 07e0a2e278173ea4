package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

func createBusybox(t *testing.T, namespace, name string) {
	t.Helper()
	require.NoError(t, env.Client.Create(t.Context(), &examplev1alpha1.Busybox{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}))
}

// waitForDeployment waits until a manager has created a Deployment.
func waitForDeployment(t *testing.T, namespace, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{}))
	}, timeout, pollInterval)
}

// leaseHolder returns the holder of the Lease, or "" if there is no Lease or no holder.
func leaseHolder(t require.TestingT, namespace string) string {
	var leases coordinationv1.LeaseList
	require.NoError(t, env.Client.List(context.Background(), &leases, client.InNamespace(namespace)))
	if len(leases.Items) == 0 {
		return ""
	}
	require.Len(t, leases.Items, 1)
	assert.Equal(t, leaderElectionID, leases.Items[0].Name)
	return ptr.Deref(leases.Items[0].Spec.HolderIdentity, "")
}

// holderOf returns the holder of a Lease.
func holderOf(t require.TestingT, obj runtime.Object) string {
	lease, ok := obj.(*coordinationv1.Lease)
	require.True(t, ok, "%v", obj)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// watchLeases starts a watch of all later changes of a namespace's Leases.
func watchLeases(t *testing.T, namespace string) watch.Interface {
	t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	var leases coordinationv1.LeaseList
	require.NoError(t, c.List(t.Context(), &leases, client.InNamespace(namespace)))
	w, err := c.Watch(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: leases.ResourceVersion}})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// waitForHolderAfter reads a watch of a Lease until a manager other than previous holds it. It
// returns that holder and the state of the Lease before.
func waitForHolderAfter(t *testing.T, leases watch.Interface, previous string) (holder string, before *coordinationv1.Lease) {
	t.Helper()
	for event := range leases.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		require.True(t, ok, "%v", event.Object)
		holder = holderOf(t, lease)
		if holder != "" && holder != previous {
			return holder, before
		}
		before = lease
	}
	require.Fail(t, "the watch ended")
	return "", nil
}

func TestManagerIgnoresOtherNamespaces(t *testing.T) {
	t.Parallel()
	one, two, other := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	createBusybox(t, other, "box")
	p := start(t, "--namespaces="+one+","+two)
	createBusybox(t, one, "box")
	createBusybox(t, two, "box")
	waitForDeployment(t, one, "box")
	waitForDeployment(t, two, "box")
	assert.Never(t, func() bool {
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "box"}, &appsv1.Deployment{})
		return !apierrors.IsNotFound(err)
	}, quietPeriod, pollInterval)
	p.stop(t)
}

func TestStandbyTakesOverReleasedLease(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	args := []string{"--namespaces=" + namespace, "--leader-elect", "--leader-election-namespace=" + namespace}
	first := start(t, args...)
	createBusybox(t, namespace, "a")
	waitForDeployment(t, namespace, "a")
	leader := leaseHolder(t, namespace)
	require.NotEmpty(t, leader)

	second := start(t, args...)
	address := second.probeAddress(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, _ := get(c, "http://"+address+"/readyz", "")
		assert.Equal(c, 200, code, "the standby is ready")
		assert.NotNil(c, second.logged("Starting EventSource", ""), "the standby fills its caches")
	}, timeout, pollInterval)
	assert.Equal(t, leader, leaseHolder(t, namespace))
	assert.Nil(t, second.logged("Starting workers", ""), "the standby does not reconcile")

	leases := watchLeases(t, namespace)
	first.stop(t)
	createBusybox(t, namespace, "b")
	waitForDeployment(t, namespace, "b")

	// A Lease that has no holder is free. A standby waits only for a Lease that has a holder.
	standby, before := waitForHolderAfter(t, leases, leader)
	assert.Equal(t, standby, leaseHolder(t, namespace))
	require.NotNil(t, before, "the leader changed the Lease when it stopped")
	assert.Empty(t, ptr.Deref(before.Spec.HolderIdentity, ""), "the leader released the Lease: it did not expire")
	second.stop(t)
}

func TestManagerReleasesItsLeaseOnSIGTERM(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	p := start(t, "--namespaces="+namespace, "--leader-elect", "--leader-election-namespace="+namespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NotEmpty(c, leaseHolder(c, namespace)) }, timeout, pollInterval)
	p.stop(t)
	assert.Empty(t, leaseHolder(t, namespace))
}
