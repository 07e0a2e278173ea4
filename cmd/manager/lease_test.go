package main

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newTestLease returns the lock of a manager with an identity.
func newTestLease(t *testing.T, namespace, identity string) *lease {
	t.Helper()
	clients, err := kubernetes.NewForConfig(env.Config)
	require.NoError(t, err)
	return &lease{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaderElectionID},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}
}

func heldBy(identity string) resourcelock.LeaderElectionRecord {
	now := metav1.Now()
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
}

// released is what client-go writes to release a Lease.
func released() resourcelock.LeaderElectionRecord {
	record := heldBy("")
	record.LeaseDurationSeconds = 1
	return record
}

// passOn makes another manager the holder of the Lease.
func passOn(t *testing.T, namespace, holder string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: leaderElectionID}, lease))
	patch := client.MergeFrom(lease.DeepCopy())
	lease.Spec.HolderIdentity = &holder
	require.NoError(t, env.Client.Patch(t.Context(), lease, patch))
}

func TestLeaseOfAnotherManagerIsNotChanged(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	lock := newTestLease(t, namespace, "first")
	require.NoError(t, lock.Create(t.Context(), heldBy("first")))
	passOn(t, namespace, "second")

	require.Error(t, lock.Update(t.Context(), heldBy("first")), "a renewal")
	// client-go reads the Lease before it releases it, but ignores who holds it.
	_, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, lock.Update(t.Context(), released()), errLost)
	assert.Equal(t, "second", leaseHolder(t, namespace))
}

func TestLostLeaseIsNotAcquiredAgain(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"while another manager holds it": "second", "after another manager released it": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			lock := newTestLease(t, namespace, "first")
			require.NoError(t, lock.Create(t.Context(), heldBy("first")))
			passOn(t, namespace, last)
			_, _, err := lock.Get(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, lock.Update(t.Context(), heldBy("first")), errLost)
			require.ErrorIs(t, lock.Create(t.Context(), heldBy("first")), errLost)
			assert.False(t, lock.mayWrite(time.Now()))
			assert.Equal(t, last, leaseHolder(t, namespace))
		})
	}
}

func TestLeaseIsAcquiredRenewedAndReleased(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	first, second := newTestLease(t, namespace, "first"), newTestLease(t, namespace, "second")
	require.NoError(t, first.Create(t.Context(), heldBy("first")))
	require.NoError(t, first.Update(t.Context(), heldBy("first")))
	_, _, err := second.Get(t.Context())
	require.NoError(t, err)
	assert.False(t, second.mayWrite(time.Now()))
	_, _, err = first.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Update(t.Context(), released()))
	_, _, err = second.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, second.Update(t.Context(), heldBy("second")))
	assert.Equal(t, "second", leaseHolder(t, namespace))
	assert.True(t, second.mayWrite(time.Now()))
}

func TestWritesNeedARecentRenewal(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lock := &lease{}
	assert.False(t, lock.mayWrite(now), "never held")
	lock.isHeld, lock.renewed = true, now
	assert.True(t, lock.mayWrite(now.Add(renewDeadline-time.Millisecond)))
	assert.False(t, lock.mayWrite(now.Add(renewDeadline)))
	suspended := now.Add(time.Hour).Round(0) // The wall clock alone has advanced.
	assert.False(t, lock.mayWrite(suspended))
}

func TestFenceStopsOnlyWrites(t *testing.T) {
	t.Parallel()
	const reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
	for name, test := range map[string]struct {
		method, path   string
		isHeld, isSent bool
	}{
		"read":                    {http.MethodGet, "/api/v1/pods", false, true},
		"review of a token":       {http.MethodPost, reviews, false, true},
		"review of access":        {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", false, true},
		"write of a leader":       {http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/a", true, true},
		"write without the Lease": {http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/a", false, false},
		"event without the Lease": {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/a/events", false, false},
		"delete":                  {http.MethodDelete, "/apis/apps/v1/namespaces/a/deployments/a", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock, isSent := &lease{}, false
			if test.isHeld {
				lock.isHeld, lock.renewed = true, time.Now()
			}
			next := roundTripper(func(*http.Request) (*http.Response, error) {
				isSent = true
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})
			body, writer := io.Pipe()
			request, err := http.NewRequestWithContext(t.Context(), test.method, "https://server"+test.path, body)
			require.NoError(t, err)
			response, err := lock.fence(next).RoundTrip(request)
			assert.Equal(t, test.isSent, isSent)
			if test.isSent {
				require.NoError(t, err)
				assert.NoError(t, response.Body.Close())
				return
			}
			require.ErrorIs(t, err, errFenced)
			_, err = writer.Write([]byte("{}"))
			assert.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
		})
	}
}
