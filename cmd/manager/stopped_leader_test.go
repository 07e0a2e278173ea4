package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
)

// waitForHolder waits until a manager other than previous holds the Lease.
func waitForHolder(t *testing.T, namespace, previous string) string {
	t.Helper()
	var holder string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		holder = leaseHolder(c, namespace)
		assert.NotEmpty(c, holder)
		assert.NotEqual(c, previous, holder)
	}, 2*leaseDuration, pollInterval)
	return holder
}

func TestLeaderThatWasStoppedWritesNothingWhenItContinues(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler := createOOMKilledPod(t, namespace) // Its history is to be saved when the leader ends.
	args := []string{"--namespaces=" + namespace, "--leader-elect", "--leader-election-namespace=" + namespace}
	connection := newProxy(t, forwardAll)
	first := start(t, append(args, connection.flag(t))...)
	waitForRecommendation(t, scaler)
	createBusybox(t, namespace, "before")
	waitForDeployment(t, namespace, "before")
	leader := waitForHolder(t, namespace, "")
	start(t, args...)

	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	successor := waitForHolder(t, namespace, leader)
	for _, name := range []string{"a", "b", "c", "d"} {
		createBusybox(t, namespace, name)
	}
	connection.forget()
	leases := watchLeases(t, namespace)
	changes := make(chan watch.Event, 1000)
	go func() {
		defer close(changes)
		for change := range leases.ResultChan() {
			changes <- change
		}
	}()
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	<-first.ended
	assert.Contains(t, first.log.String(), "leader election lost")
	assert.Empty(t, connection.written())
	for _, name := range []string{"a", "b", "c", "d"} {
		waitForDeployment(t, namespace, name)
	}
	assert.Equal(t, successor, leaseHolder(t, namespace))
	leases.Stop()
	for change := range changes {
		if change.Type == watch.Modified {
			assert.Equal(t, successor, holderOf(t, change.Object), "nobody else has changed the Lease")
		}
	}
}
