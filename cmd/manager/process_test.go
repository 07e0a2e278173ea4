package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// timeout is the maximum time to wait for an expected state.
	timeout = 20 * time.Second
	// quietPeriod is the time in which an unexpected change would show.
	quietPeriod  = 500 * time.Millisecond
	pollInterval = 20 * time.Millisecond
)

// process is a running manager.
type process struct {
	cmd   *exec.Cmd
	log   *output
	ended chan struct{}
	err   error
}

// output is the output of a process so far.
type output struct {
	mu       sync.Mutex
	contents bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.contents.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.contents.String()
}

// start runs the manager as an administrator until the test ends. It uses free ports.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{log: &output{}, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), binary, append([]string{
		"--kubeconfig=" + kubeconfig(t, env.Config),
		"--health-probe-bind-address=127.0.0.1:0",
		"--metrics-bind-address=0",
	}, args...)...)
	p.cmd.Env = []string{"HOME=" + t.TempDir()}
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = timeout
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		<-p.ended
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return p
}

// stop sends SIGTERM, as the kubelet does, and asserts that the manager exits without an error.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(timeout):
		require.Fail(t, "the manager does not exit")
	}
	require.NoError(t, p.err, "exit code 0")
	assert.NotContains(t, p.log.String(), "goroutine ", "no stack trace")
}

// logged returns the first log entry with a message and, if name is not empty, a name. It returns
// nil if there is none.
func (p *process) logged(msg, name string) map[string]any {
	for line := range strings.SplitSeq(p.log.String(), "\n") {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg && (name == "" || entry["name"] == name) {
			return entry
		}
	}
	return nil
}

// probeAddress waits until the manager serves the probes and returns their address.
func (p *process) probeAddress(t *testing.T) string {
	t.Helper()
	var entry map[string]any
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		entry = p.logged("starting server", "health probe")
		assert.NotNil(c, entry)
	}, timeout, pollInterval)
	return entry["addr"].(string)
}
